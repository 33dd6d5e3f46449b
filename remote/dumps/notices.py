"""What the kernel tells of names that come and go in a folder (inotify), so that nobody has to list it."""

from __future__ import annotations

import ctypes
import os
import struct
import weakref
from collections.abc import Iterator
from typing import Optional

_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _ONLYDIR = 0x4000, 0x0100_0000
_HEAD = struct.Struct("iIII")  # watch, mask, cookie, bytes of the name that follows
_ROOM = 1 << 16


class Notices:
    """Of one folder, from now on. Raises OSError where the kernel gives no more of them, or there is no folder."""

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.close = weakref.finalize(self, os.close, self._handle)
        mask = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
        try:
            _checked(libc.inotify_add_watch(self._handle, os.fsencode(path), mask))
        except OSError:
            self.close()
            raise

    def take(self) -> Optional[dict[str, bool]]:
        """Whether each name that came or went since the last time is there now; None where some were lost."""
        told: dict[str, bool] = {}
        lost = False
        while True:
            try:
                data = os.read(self._handle, _ROOM)
            except BlockingIOError:
                return None if lost else told
            for mask, name in _events(data):
                lost = lost or bool(mask & _OVERFLOW)
                if name:
                    told[name] = bool(mask & (_CREATE | _MOVED_TO))


def of(path: str) -> Optional[Notices]:
    """None where this system has none to give: then the folder has to be listed."""
    try:
        return Notices(path)
    except (OSError, AttributeError):
        return None


def _events(data: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(data):
        _, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        yield mask, os.fsdecode(data[at - length : at].rstrip(b"\0"))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
