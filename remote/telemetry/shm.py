"""Room for dumps: their file system, the memory that its pages are charged to, and what dumps hold of it."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

from remote import processes
from remote.telemetry import watch as watching
from remote.wire.telemetry import ShmSnapshot

CGROUPS = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
UNLIMITED = 1 << 60  # version 1 writes 'no limit' as a number near 2**63
COUNTED_EVERY = 10.0  # seconds between two counts of what the dumps hold
COUNTED_AT_MOST = 2.0  # seconds one count may take
ROUNDED = 1 << 20  # bytes; smaller changes are not sent


def read(dump_dir: str) -> ShmSnapshot:
    """The room now. `problem` says why the folder's file system can't be read."""
    return _look(dump_dir, dumps_bytes(dump_dir))


def room(snapshot: ShmSnapshot) -> int:
    """Bytes that can really be written: what the file system has free, and no more than the memory cgroup allows."""
    if snapshot.cgroup_headroom is None:
        return snapshot.free
    return min(snapshot.free, snapshot.cgroup_headroom)


def watch(dump_dir: str, emit: Callable[[Any], None], cancelled: threading.Event) -> None:
    """Send the room whenever it changes by a MiB, looking once a second. Dumps are counted every ten seconds."""
    counted, held = -COUNTED_EVERY, 0

    def look() -> ShmSnapshot:
        nonlocal counted, held
        if time.monotonic() - counted >= COUNTED_EVERY:
            held = dumps_bytes(dump_dir)
            counted = time.monotonic()
        return _look(dump_dir, held)

    watching.changes(look, emit, cancelled, pause=lambda _: 1.0, essence=_essence)


def _essence(seen: ShmSnapshot) -> Any:
    headroom = None if seen.cgroup_headroom is None else seen.cgroup_headroom // (64 * ROUNDED)
    sizes = (seen.size // ROUNDED, seen.used // ROUNDED, seen.dumps // ROUNDED)
    return seen.path, sizes, headroom, seen.problem


def _look(dump_dir: str, held: int) -> ShmSnapshot:
    path = _existing(dump_dir)
    try:
        system = os.statvfs(path)
    except OSError as error:
        return ShmSnapshot(time.time(), dump_dir, problem=f"{path}: {error.strerror}")
    size = system.f_blocks * system.f_frsize
    free = system.f_bavail * system.f_frsize
    in_memory = _is_tmpfs(path)
    return ShmSnapshot(
        at=time.time(),
        path=dump_dir,
        size=size,
        used=size - system.f_bfree * system.f_frsize,
        free=free,
        cgroup_headroom=headroom() if in_memory else None,
        dumps=held,
    )


def _existing(path: str) -> str:
    """`path`, or the nearest folder above it that is there: the dump folder is made by the server."""
    while path not in ("", "/") and not os.path.isdir(path):
        path = os.path.dirname(path.rstrip("/"))
    return path or "/"


def _is_tmpfs(path: str) -> bool:
    """Do the pages of files below `path` count as memory?"""
    real, best, kind = os.path.realpath(path), "", ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split()
            mount = fields[1].rstrip("/") + "/"
            if (real + "/").startswith(mount) and len(mount) >= len(best):
                best, kind = mount, fields[2]
    return kind in ("tmpfs", "ramfs")


def headroom() -> Optional[int]:
    """Bytes of memory still to be had: the least over this process's control groups and /proc/meminfo (lxcfs)."""
    bounds = list(_cgroup_bounds())
    available = re.search(r"^MemAvailable:\s+(\d+) kB", _text(MEMINFO), re.MULTILINE)
    if available:
        bounds.append(int(available.group(1)) * 1024)
    return max(0, min(bounds)) if bounds else None


def _cgroup_bounds() -> Iterator[int]:
    """Limit less use of each memory control group from this process's own up to the root that can be seen."""
    group = processes.cgroup(os.getpid()).strip("/")
    for root, limit, use, reclaimable in (
        (CGROUPS, "memory.max", "memory.current", "inactive_file"),
        (CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        folder = root / group
        for place in (folder, *folder.parents):
            bound = _bound(place, limit, use, reclaimable)
            if bound is not None:
                yield bound
            if place == root:
                break


def _bound(folder: Path, limit: str, use: str, reclaimable: str) -> Optional[int]:
    most, used = _text(folder / limit).strip(), _text(folder / use).strip()
    if not (most.isdigit() and used.isdigit()) or int(most) >= UNLIMITED:
        return None
    cache = re.search(rf"^{reclaimable} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
    return int(most) - int(used) + (int(cache.group(1)) if cache else 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def dumps_bytes(dump_dir: str) -> int:
    """Bytes of the files in the dump folder's directories; scaled up from the part seen when that takes too long."""
    try:
        names = os.listdir(dump_dir)
    except OSError:
        return 0
    deadline = time.monotonic() + COUNTED_AT_MOST
    total = 0
    for done, name in enumerate(names, start=1):
        total += _files_bytes(f"{dump_dir}/{name}")
        if time.monotonic() > deadline:
            return total * len(names) // done
    return total


def _files_bytes(folder: str) -> int:
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total
