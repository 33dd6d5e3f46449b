"""Room in a file before it is written, by Linux' fallocate: Python's own falls back to writing every block."""

from __future__ import annotations

import ctypes
import errno
import os

_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def reserve(file: int, start: int, size: int) -> None:
    """Set bytes `start … start + size - 1` of an open file apart. Nothing where that can't be done: writing will tell.

    Raises OSError when they are not there.
    """
    if _fallocate is None or size == 0:
        return
    if _fallocate(file, 0, ctypes.c_int64(start), ctypes.c_int64(size)) != 0:
        number = ctypes.get_errno()
        if number in _NO_ROOM:
            raise OSError(number, os.strerror(number))
