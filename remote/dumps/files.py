"""Files of a dump, opened with suspicion: only regular ones, never through a link, never more than asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

MAX_FILES = 1100  # in one dump: more than that is no dump


def open_regular(path: str) -> int:
    """A descriptor of the regular file at `path`. Raises OSError; links and pipes are refused, never waited for."""
    return plain(path, os.O_RDONLY | os.O_NOFOLLOW)


def plain(path: str, flags: int) -> int:
    """An `opener` of regular files, also behind links. Raises OSError for pipes and devices; never waits for one."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "not a regular file", path)


def read_small(path: str, limit: int) -> bytes:
    """The whole file. Raises OSError, also when it is larger than `limit` bytes."""
    handle = open_regular(path)
    try:
        data = b""
        while len(data) <= limit:
            part = os.read(handle, limit + 1 - len(data))
            if not part:
                return data
            data += part
    finally:
        os.close(handle)
    raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", path)


def listing(folder: str) -> dict[str, os.stat_result]:
    """Name → status, of links themselves, of all in `folder` but what vanishes meanwhile.

    Raises OSError, also when the folder is a link.
    """
    found: dict[str, os.stat_result] = {}
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                if len(found) == MAX_FILES:
                    raise OSError(errno.EFBIG, f"more than {MAX_FILES} files", folder)
                with contextlib.suppress(FileNotFoundError):
                    found[entry.name] = entry.stat(follow_symlinks=False)
    finally:
        os.close(handle)
    return found
