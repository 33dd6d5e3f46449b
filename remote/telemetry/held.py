"""What the dump folder holds, in bytes of its file system, kept up to date at the cost of what changed.

A directory is counted when its name appears, and again at each look while it is being written; all others in turn, as
many as a look has time for, so that what is deleted from within a dump is noticed in the end, whatever there is.
"""

from __future__ import annotations

import collections
import contextlib
import os
import time

from remote.dumps.folder import Folder, Replaced
from remote.telemetry.segments import BLOCK

SETTLED = 60.0  # seconds without a change after which a directory without `done` is no longer counted at each look
DONE = "done"


class Held:
    """The bytes in one dump folder."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._clear()

    def _clear(self) -> None:
        self._folder = Folder(self._path)
        self._new: collections.OrderedDict[str, None] = collections.OrderedDict()  # names that were not counted yet
        # of the others, the next in turn first
        self._sizes: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._total = 0
        self._growing: dict[str, float] = {}  # without `done`: monotonic seconds when it last changed

    def look(self, seconds: float) -> int:
        """Bytes held now, after at most about `seconds` of counting; what is not counted yet is taken for average."""
        end = time.monotonic() + seconds
        try:
            changes = self._folder.changes()
        except (OSError, Replaced):
            self._clear()
            return 0
        for name in changes.removed:
            self._new.pop(name, None)
            self._total -= self._sizes.pop(name, 0)
            self._growing.pop(name, None)
        self._new.update(dict.fromkeys(sorted(changes.added)))
        self._count_all(end)
        return self._total + self._rest()

    def _count_all(self, end: float) -> None:
        for name in list(self._growing):
            self._count(name)
            if time.monotonic() > end:
                break
        while self._new and time.monotonic() < end:
            name, _ = self._new.popitem(last=False)
            self._count(name)
        for _ in range(len(self._sizes)):
            if time.monotonic() > end:
                break
            name = next(iter(self._sizes))
            self._count(name)
            self._sizes.move_to_end(name)

    def _rest(self) -> int:
        counted = len(self._sizes)
        return self._total * len(self._new) // counted if counted else 0

    def _count(self, name: str) -> None:
        size, done = _measure(f"{self._path}/{name}")
        before = self._sizes.get(name)
        self._sizes[name] = size
        self._total += size - (before or 0)
        now = time.monotonic()
        if done:
            self._growing.pop(name, None)
        elif size != before:
            self._growing[name] = now
        elif now - self._growing.get(name, now) > SETTLED:
            self._growing.pop(name, None)


def _measure(path: str) -> tuple[int, bool]:
    """Bytes that a dump's files take, and whether it is done; of what is no directory, its own."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        with contextlib.suppress(OSError):
            return os.lstat(path).st_blocks * BLOCK, True
        return 0, True
    total, done = 0, False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                done = done or entry.name == DONE
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_blocks * BLOCK
    except OSError:
        pass
    finally:
        os.close(folder)
    return total, done
