"""What is remembered of each patched file: its original, by hash, and what was written over it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from typing import BinaryIO, Optional

from remote.patch import files
from remote.wire import folders, locks
from remote.wire.codec import decode, encode
from remote.wire.errors import Refused, WireError

WAIT = 10.0  # seconds for another patch of the same file to end


@dataclasses.dataclass(frozen=True)
class Record:
    """The last apply to one model file. path: the real one. at: seconds since the epoch."""

    path: str
    original_sha256: str
    written_sha256: str
    dumper_digest: str
    seam: str
    at: float
    sglang_version: Optional[str] = None


class Store:
    """Originals and records below one folder, which is made when first needed."""

    def __init__(self, folder: str) -> None:
        self.originals = os.path.join(folder, "originals")
        self.patches = os.path.join(folder, "patches")

    def keep(self, content: bytes) -> str:
        """Keep `content` under its SHA-256, and return that."""
        digest = files.sha256(content)
        if self.original(digest) is None:
            self._write(self.originals, digest, content)
        return digest

    def original(self, digest: Optional[str]) -> Optional[bytes]:
        """The content with this hash, None when it isn't kept or has rotted."""
        content = files.read(self.original_path(digest)) if digest else None
        return content if content is not None and files.sha256(content) == digest else None

    def original_path(self, digest: str) -> str:
        return os.path.join(self.originals, digest)

    def record(self, path: str) -> Optional[Record]:
        return _record(files.read(os.path.join(self.patches, _key(path) + ".json")))

    def records(self) -> list[Record]:
        """Of every file this store knows."""
        try:
            names = [name for name in os.listdir(self.patches) if name.endswith(".json")]
        except OSError:
            return []
        found = (_record(files.read(os.path.join(self.patches, name))) for name in sorted(names))
        return [record for record in found if record is not None]

    def remember(self, record: Record) -> None:
        self._write(self.patches, _key(record.path) + ".json", json.dumps(encode(record), indent=1).encode())

    def forget(self, path: str) -> None:
        files.discard(os.path.join(self.patches, _key(path) + ".json"))

    @contextlib.contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Nobody else who uses this store changes `path` meanwhile. Raises Refused when somebody does for long."""
        folders.make(self.patches)
        with _private(os.path.join(self.patches, _key(path) + ".lock")) as lock:
            if not locks.take(lock.fileno(), WAIT):
                raise Refused(f"another hsconsole is changing {path}", "Wait until it has ended, then look again.")
            yield

    def _write(self, folder: str, name: str, content: bytes) -> None:
        path = os.path.join(folder, name)
        aside = f"{path}.{os.getpid()}"
        try:
            folders.make(folder)
            files.discard(aside)
            files.write_new(aside, content, 0o600)
            os.replace(aside, path)
            files.sync_folder(folder)
        except OSError as error:
            raise files.failure("write", path, error) from None
        finally:
            files.discard(aside)


def _private(path: str) -> BinaryIO:
    """The file, made if need be, for its owner alone whatever the umask."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "r+b")


def _key(path: str) -> str:
    return files.sha256(os.fsencode(path))[:16]


def _record(content: Optional[bytes]) -> Optional[Record]:
    try:
        return None if content is None else decode(Record, json.loads(content))
    except (ValueError, RecursionError, WireError):  # cut off or not ours: as if there were none
        return None
