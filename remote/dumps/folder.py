"""The names in the dump folder, listed again only when the folder changed and never more often than they cost."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Optional

_SHARE = 0.05  # of a core that listing may take, however many names there are


class Changes(NamedTuple):
    """looked: False when it was too early to list again, so that more may have changed than is told."""

    added: set[str]
    removed: set[str]
    looked: bool = True


class Folder:
    """Names that came and went. With 100,000 names a listing takes 0.06 s, so it is then made every 1.2 s at most."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._names: set[str] = set()
        self._identity: Optional[tuple[int, int]] = None
        self._modified = -1
        self._settled = False
        self._due = 0.0

    def changes(self) -> Changes:
        """What came and went since the last call. Raises OSError; Replaced when the folder is another one now."""
        status = os.stat(self.path)
        identity = (status.st_dev, status.st_ino)
        if self._identity not in (None, identity):
            raise Replaced
        self._identity = identity
        unchanged = self._settled and status.st_mtime_ns == self._modified
        if unchanged or time.monotonic() < self._due:
            return Changes(set(), set(), unchanged)
        started = time.thread_time()
        names = set(os.listdir(self.path))
        # Two changes within one tick of the kernel's clock leave the same mtime: only a second look at it settles.
        self._settled = status.st_mtime_ns == self._modified
        self._modified = status.st_mtime_ns
        changes = Changes(names - self._names, self._names - names)
        self._names = names
        self._due = time.monotonic() + (time.thread_time() - started) * (1 / _SHARE - 1)
        return changes


class Replaced(Exception):
    """The folder was deleted and made again: nothing known about the old one holds."""
