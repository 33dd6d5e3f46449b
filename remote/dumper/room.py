"""Room for a request, looked at before it is written: a full /dev/shm must cost that request, never the server."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Callable

from .problem import DumpFailure, Problem

_LARGEST_RESERVE = 256 << 20
_CGROUPS = "/sys/fs/cgroup"


class Room:
    """The free bytes of the folder's file system, less a reserve and less what was promised but is not yet written."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._promised = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def promise(self, size: int) -> Iterator[Callable[[int], None]]:
        """Set `size` bytes apart while the block runs; it calls what it is given with each number of bytes written.

        Raises DumpFailure when they are not there, OSError when nobody can tell.
        """
        left = self._set_apart(size)

        def written(count: int) -> None:
            nonlocal left
            count = min(count, left)
            left -= count
            self._give_back(count)

        try:
            yield written
        finally:
            self._give_back(left)

    def _set_apart(self, size: int) -> int:
        with self._lock:
            free, reserve = _free(self._folder)
            if size > free - reserve - self._promised:
                detail = (
                    f"{size:,} bytes needed, {free:,} free in {self._folder}, of these {reserve:,} kept in reserve and "
                    f"{self._promised:,} promised to other requests. Take finished dumps away, or send fewer at once"
                )
                raise DumpFailure(Problem("no room where the dumps are written", detail))
            self._promised += size
            return size

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._promised -= size


def _free(folder: str) -> tuple[int, int]:
    """Bytes that can still be written in `folder`, and how many of them stay reserved for others."""
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    reserve = min(_LARGEST_RESERVE, system.f_blocks * system.f_frsize // 16)
    if _is_tmpfs(folder):
        free = min(free, _cgroup_headroom(free))
    return free, reserve


def _is_tmpfs(folder: str) -> bool:
    """Whether the pages of `folder` are memory, charged to this process's cgroup."""
    place, kind = "", ""
    path = os.path.realpath(folder) + "/"
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            fields = line.split(" ")
            root = fields[1].replace("\\040", " ").rstrip("/") + "/"
            if path.startswith(root) and len(root) >= len(place):
                place, kind = root, fields[2]
    return kind == "tmpfs"


def _cgroup_headroom(default: int) -> int:
    """Bytes until the tightest memory limit above this process (cgroup v2); file cache counts as free."""
    headroom = default
    try:
        with open("/proc/self/cgroup", encoding="ascii") as own:
            path = next(line.rstrip("\n")[3:] for line in own if line.startswith("0::"))
    except (OSError, StopIteration):
        return headroom
    while True:
        headroom = min(headroom, _headroom_at(_CGROUPS + path.rstrip("/"), default))
        if path in ("", "/"):
            return headroom
        path = os.path.dirname(path)


def _headroom_at(group: str, default: int) -> int:
    try:
        limit = _read(f"{group}/memory.max").strip()
        if limit == "max":
            return default
        stat = dict(line.split() for line in _read(f"{group}/memory.stat").splitlines())
        cache = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
        return max(0, int(limit) - int(_read(f"{group}/memory.current")) + cache)
    except (OSError, ValueError):
        return default


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
