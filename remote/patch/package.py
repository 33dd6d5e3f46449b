"""The dumper package: as shipped with this hsconsole, and as installed beside SGLang.

It is never imported here: where SGLANG_HS_DUMP_DIR is set its import starts a dumper. So its digest is computed here
by the same rule as in remote/dumper/identity.py.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from remote.patch import files


@functools.lru_cache(maxsize=1)
def shipped() -> dict[str, bytes]:
    """The dumper's `.py` files by their path inside the package, read from a folder or a zipapp alike."""
    return dict(_walk(importlib.resources.files("remote").joinpath("dumper"), ""))


def _walk(folder: Any, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def digest_of(content: Mapping[str, bytes]) -> str:
    """SHA-256 (hex) over names and contents, whatever their order."""
    digest = hashlib.sha256()
    for name in sorted(content):
        digest.update(b"%s\0%d\0" % (name.encode("utf-8"), len(content[name])))
        digest.update(content[name])
    return digest.hexdigest()


def shipped_digest() -> str:
    return digest_of(shipped())


def installed_digest(folder: str) -> Optional[str]:
    """Of the dumper in `folder`; None when there is nothing."""
    if not os.path.isdir(folder):
        return None
    try:
        return digest_of(dict(_walk(Path(folder), "")))
    except OSError as error:
        raise files.failure("read", folder, error) from None


def install(folder: str) -> None:
    """Put the shipped dumper at `folder`, whole, in place of what was there, which stays where PatchError is raised."""
    parent, name = os.path.split(folder)
    new, old = (os.path.join(parent, f".{name}.{suffix}") for suffix in ("new", "old"))
    try:
        files.discard(new)
        files.discard(old)
        for path, content in shipped().items():
            place = os.path.join(new, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            files.write_new(place, content, 0o644)
        for root, _, _ in os.walk(new):
            os.chmod(root, 0o755)  # noqa: S103 - SGLang may run as another user
        _exchange(folder, new, old)
        files.sync_folder(parent)
        files.discard(old)
    except OSError as error:
        raise files.failure("write", folder, error) from None
    finally:
        files.discard(new)


def _exchange(folder: str, new: str, old: str) -> None:
    """`new` as `folder`, which becomes `old`, or stays where it can't be done."""
    there = os.path.lexists(folder)
    if there:
        os.rename(folder, old)
    try:
        os.rename(new, folder)
    except OSError:
        if there:
            os.rename(old, folder)
        raise


def remove(folder: str) -> None:
    """Take the dumper's `.py` files and what Python compiled of them out; anything else in `folder` stays."""
    try:
        for path in dict(_walk(Path(folder), "")):
            os.unlink(os.path.join(folder, path))
        for root, _, _ in os.walk(folder, topdown=False):
            files.discard(os.path.join(root, "__pycache__"))
            if not os.listdir(root):
                os.rmdir(root)
    except OSError as error:
        raise files.failure("remove", folder, error) from None
