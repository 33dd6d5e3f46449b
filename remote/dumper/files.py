"""Small files that others read while they change, in a folder where others may have put links and pipes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from . import log


def replace_json(path: str, value: dict[str, Any]) -> None:
    """Write `value` to `path` in one piece. A failure is logged: these files inform, no dump depends on them."""
    folder, name = os.path.split(path)
    aside = f"{name}.new"
    try:
        os.makedirs(folder, exist_ok=True)
        with opened(folder) as place:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=place)
            made = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=place)
            with os.fdopen(made, "wb") as file:
                file.write(json.dumps(value).encode("ascii"))
            os.replace(aside, name, src_dir_fd=place, dst_dir_fd=place)
    except OSError as error:
        log.once(f"{path} could not be written", str(error.strerror))


@contextlib.contextmanager
def opened(folder: str) -> Iterator[int]:
    """The descriptor of a folder; a link to one is none of ours. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def read_small(path: str, limit: int) -> bytes:
    """The first `limit` bytes of a plain file. Raises OSError; links and pipes are refused, never waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return file.read(limit)
