"""Room for dumps: their file system, the memory that its pages are charged to, and who holds how much of it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

from remote.telemetry import memory, segments, stale
from remote.telemetry import watch as watching
from remote.telemetry.flow import Flow
from remote.telemetry.held import Held
from remote.telemetry.segments import Segment
from remote.wire.telemetry import ShmOwner, ShmSnapshot

COUNTED_AT_MOST = 2.0  # seconds that the one count of the dumps may take
COUNTED_EACH = 0.02  # seconds of counting at each look of a watch
SURVEYED_EVERY = 60.0  # seconds between two looks through /proc for what dead processes left
LISTED_SHARE = 0.05  # of a core that listing segments may take, however many there are
ROUNDED = 1 << 20  # bytes; smaller changes are not sent


def read(dump_dir: str) -> ShmSnapshot:
    """The room now. `problem` says why the folder's file system can't be read."""
    return _Watcher(dump_dir).look(COUNTED_AT_MOST)


def room(snapshot: ShmSnapshot) -> int:
    """Bytes that can really be written: what the file system has free, and no more than the memory cgroup allows."""
    if snapshot.cgroup_headroom is None:
        return snapshot.free
    return min(snapshot.free, snapshot.cgroup_headroom)


def watch(dump_dir: str, emit: Callable[[Any], None], cancelled: threading.Event) -> None:
    """Send the room whenever it changes by a MiB, looking once a second."""
    watcher = _Watcher(dump_dir)
    watching.changes(lambda: watcher.look(COUNTED_EACH), emit, cancelled, pause=lambda _: 1.0, essence=_essence)


def _essence(seen: ShmSnapshot) -> Any:
    headroom = None if seen.cgroup_headroom is None else seen.cgroup_headroom // (64 * ROUNDED)
    sizes = (seen.size // ROUNDED, seen.used // ROUNDED, seen.dumps // ROUNDED)
    owners = [(owner.name, owner.bytes // ROUNDED) for owner in seen.owners]
    return seen.path, sizes, headroom, seen.problem, owners, seen.stale, seen.doubt


class _Watcher:
    """What is kept from one look to the next."""

    def __init__(self, dump_dir: str) -> None:
        self._dump_dir = dump_dir
        self._held = Held(dump_dir)
        self._flow = Flow()
        self._segments: list[Segment] = []
        self._listed_again = 0.0  # monotonic seconds when they may be listed again
        self._survey = stale.Survey(())
        self._surveyed = -SURVEYED_EVERY

    def look(self, seconds: float) -> ShmSnapshot:
        """The room now. seconds: at most about so many go into counting dumps."""
        path = existing(self._dump_dir)
        try:
            system, device = os.statvfs(path), os.stat(path).st_dev
        except OSError as error:
            return ShmSnapshot(time.time(), self._dump_dir, problem=f"{path}: {error.strerror}")
        size = system.f_blocks * system.f_frsize
        used = size - system.f_bfree * system.f_frsize
        now = time.monotonic()
        self._flow.add(now, used, (device, size))
        rates = self._flow.read(now)
        return ShmSnapshot(
            at=time.time(),
            path=self._dump_dir,
            size=size,
            used=used,
            free=system.f_bavail * system.f_frsize,
            cgroup_headroom=memory.headroom() if _is_tmpfs(path) else None,
            dumps=self._held.look(seconds),
            filling=rates.filling if rates else None,
            emptying=rates.emptying if rates else None,
            **(self._others() if device == _device_of_segments() else {}),
        )

    def _others(self) -> dict[str, Any]:
        """Who else holds what of /dev/shm, and what of it dead processes left."""
        now = time.monotonic()
        if now >= self._listed_again:
            began = time.thread_time()
            self._segments = segments.listing()
            self._listed_again = now + (time.thread_time() - began) * (1 / LISTED_SHARE - 1)
        if now - self._surveyed >= SURVEYED_EVERY:
            self._survey, self._surveyed = stale.survey(), now
        here = {(each.inode, each.ctime_ns) for each in self._segments}
        found = [each for each in self._survey.found if (each.segment.inode, each.segment.ctime_ns) in here]
        left = [each.segment.bytes for each in found if each.stale]
        unsure = [each for each in found if each.stale is None]
        return {
            "owners": tuple(_owners(self._segments)),
            "stale": sum(left),
            "stale_files": len(left),
            "unsure": sum(each.segment.bytes for each in unsure),
            "doubt": unsure[0].why if unsure else "",
        }


def _owners(listed: list[Segment]) -> Iterator[ShmOwner]:
    """Those that hold anything, the largest first."""
    held: dict[str, list[int]] = {}
    for each in listed:
        held.setdefault(each.owner, []).append(each.bytes)
    for name, sizes in sorted(held.items(), key=lambda item: (-sum(item[1]), item[0])):
        yield ShmOwner(name, sum(sizes), len(sizes))


def _device_of_segments() -> Optional[int]:
    try:
        return os.stat(segments.SHM).st_dev
    except OSError:
        return None


def existing(path: str) -> str:
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
