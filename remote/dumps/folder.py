"""The names in the dump folder: as the kernel tells of them, and listed again only where that may not be all."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Optional

from . import notices
from .notices import Notices

_SHARE = 0.05  # of a core that listing may take, however many names there are
_AGAIN_S = 60.0  # a folder that changed is listed that often all the same: not every file system tells of everything


class Changes(NamedTuple):
    """looked: False when it was too early to list again, so that more may have changed than is told."""

    added: set[str]
    removed: set[str]
    looked: bool = True


class Folder:
    """Names that came and went, at the cost of those that did.

    Without the kernel's notices it is listed when its time of change is another one: with 100,000 names that takes
    0.06 s, so it is then done every 1.2 s at most.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._names: set[str] = set()
        self._identity: Optional[tuple[int, int]] = None
        self._notices: Optional[Notices] = None
        self._explained = -1  # time of change up to which there were notices
        self._modified = -1  # time of change when it was listed
        self._settled = False
        self._due = 0.0
        self._again = 0.0

    def changes(self) -> Changes:
        """What came and went since the last call. Raises OSError; Replaced when the folder is another one now."""
        told = self._notices.take() if self._notices else None
        status = os.stat(self.path)
        identity = (status.st_dev, status.st_ino)
        if self._identity not in (None, identity):
            raise Replaced
        self._identity = identity
        modified, now = status.st_mtime_ns, time.monotonic()
        if told is None:
            self._explained = -1
        elif told:
            self._explained = modified
        unchanged = self._settled and modified == self._modified
        if unchanged or (modified == self._explained and now < self._again):
            return self._take(told or {})
        if now < self._due:
            return self._take(told or {})._replace(looked=False)
        return self._list(modified)

    def _take(self, told: dict[str, bool]) -> Changes:
        added = {name for name, there in told.items() if there} - self._names
        removed = {name for name, there in told.items() if not there} & self._names
        self._names |= added
        self._names -= removed
        return Changes(added, removed)

    def _list(self, modified: int) -> Changes:
        if self._notices is None:
            self._notices = notices.of(self.path)  # before the names are read, so that none comes between
        started = time.thread_time()
        names = set(os.listdir(self.path))
        # Two changes within one tick of the kernel's clock leave the same mtime: only a second look at it settles.
        self._settled = modified == self._modified
        self._modified = modified
        self._explained = modified if self._notices else -1
        changes = Changes(names - self._names, self._names - names)
        self._names = names
        now = time.monotonic()
        self._due = now + (time.thread_time() - started) * (1 / _SHARE - 1)
        self._again = now + _AGAIN_S
        return changes


class Replaced(Exception):
    """The folder was deleted and made again: nothing known about the old one holds."""
