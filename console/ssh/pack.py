"""The agent as one file: the installed `remote` package as a zipapp whose bytes depend on nothing but its sources."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.resources
import io
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable

MAIN = b"from remote.__main__ import main\n\nmain()\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True)
class Pack:
    """digest: SHA-256 of data. finder: the source of the program that looks for a place to put it."""

    digest: str
    data: bytes
    finder: bytes

    @property
    def name(self) -> str:
        return f"agent-{self.digest}.pyz"


@functools.cache
def pack() -> Pack:
    """The agent of this installation, packed once."""
    return build(sources())


def sources() -> dict[str, bytes]:
    """The Python files of the installed `remote` package, by their names in the archive."""
    return {f"remote/{name}": file.read_bytes() for name, file in _walk(importlib.resources.files("remote"), "")}


def build(files: dict[str, bytes]) -> Pack:
    """`files` as an archive that Python runs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # stored: what deflate makes differs between its versions
        for name, data in sorted({**files, "__main__.py": MAIN}.items()):
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, data)
    data = buffer.getvalue()
    return Pack(hashlib.sha256(data).hexdigest(), data, files["remote/agent/place.py"])


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name.isidentifier() and entry.name != "__pycache__":
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name, entry
