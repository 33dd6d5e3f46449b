"""Which dumper this is: a digest over its source, computed alike by whoever installs it and by the dumper itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

VERSION = "0.1.0"


def digest_of(files: Mapping[str, bytes]) -> str:
    """SHA-256 (hex) over names and contents of `files`, whatever their order."""
    digest = hashlib.sha256()
    for name in sorted(files):
        content = files[name]
        digest.update(b"%s\0%d\0" % (name.encode("utf-8"), len(content)))
        digest.update(content)
    return digest.hexdigest()


def own_files(folder: str) -> dict[str, bytes]:
    """The `.py` files of the package in `folder`, by their path inside it (with `/`)."""
    files = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(root, name)
                with open(path, "rb") as source:
                    files[os.path.relpath(path, folder).replace(os.sep, "/")] = source.read()
    return files
