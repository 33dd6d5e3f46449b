"""Files changed whole or not at all, with their mode, owner and links kept."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from typing import Optional

from remote.wire.errors import ChangedSincePlan, PatchError


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read(path: str) -> Optional[bytes]:
    """The content of `path`, None when it is not there. Raises PatchError when it can't be read."""
    try:
        with open(path, "rb") as source:
            return source.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure("read", path, error) from None


def failure(verb: str, path: str, error: OSError) -> PatchError:
    remedy = (
        "Free some room there."
        if error.errno == errno.ENOSPC
        else "Log in as the user who owns it, or give this user access."
    )
    return PatchError(f"cannot {verb} {path}: {error.strerror or error}", remedy)


def write_new(path: str, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet, down to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as target:
        target.write(content)
        target.flush()
        os.fchmod(target.fileno(), mode)
        os.fsync(target.fileno())


def sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: str, content: bytes, expected_sha256: str) -> None:
    """Put `content` in place of what `path` (no link) holds, if that still has `expected_sha256`.

    Mode, owner and extended attributes stay; the time of change is new, so Python compiles the file again.
    Raises ChangedSincePlan or PatchError; then the file is as it was.
    """
    folder, name = os.path.split(path)
    aside = os.path.join(folder, f".{name}.hsconsole")
    try:
        discard(aside)  # of a run that was cut off
        write_new(aside, content, 0o600)
        _copy_owner(path, aside)
        shutil.copystat(path, aside)
        os.utime(aside)
        if sha256(read(path) or b"") != expected_sha256:
            raise ChangedSincePlan(f"{path} was changed by somebody else just now", "Look at the plan again.")
        os.replace(aside, path)
        sync_folder(folder)
    except OSError as error:
        raise failure("replace", path, error) from None
    finally:
        discard(aside)


def check_replaceable(path: str) -> None:
    """Raise PatchError where `replace` would be refused: its folder can't be written, or its owner not kept."""
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PatchError(f"user {os.getuid()} may not write to {folder}", "Log in as its owner or as root.")
    owner = os.stat(path).st_uid
    if os.geteuid() not in (0, owner):
        raise PatchError(
            f"{path} belongs to user {owner}: user {os.geteuid()} cannot keep it so", "Log in as that user or as root."
        )


def _copy_owner(path: str, aside: str) -> None:
    wanted, got = os.stat(path), os.stat(aside)
    if (wanted.st_uid, wanted.st_gid) == (got.st_uid, got.st_gid):
        return
    os.chown(aside, wanted.st_uid, wanted.st_gid)


def discard(path: str) -> None:
    """Remove a file, link or folder of ours, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
