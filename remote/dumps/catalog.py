"""What is known about every dump in the folder, kept up to date at the cost of what changed.

The newest dumps have rows and are examined at once (names, sizes, meta.json). An older one gets a single look for its
`done`, a few at a time; one without `done` is examined. So the counts are: complete, dumps with `done` that no
examination has found wrong; writing, without `done` but changed lately; bad, found partial, corrupt or with an error.
"""

from __future__ import annotations

import collections
import heapq
import os
import stat
import time
from collections.abc import Iterable
from typing import NamedTuple, Optional

from remote.wire.dumps import DumpCounts, DumpRow, DumpState

from . import rows
from .attempts import Attempts
from .folder import Folder
from .rates import WINDOW_S, Rates

NAMED_ODD = 20  # odd names that are told, beside their number
RECHECK_S = 5.0  # a partial dump may go on
_BAD = (DumpState.PARTIAL, DumpState.CORRUPT, DumpState.ERROR)


class _Quiet(NamedTuple):
    """A dump without `done`: when it last changed, and when (monotonic) that was, so a clock jump ages nothing."""

    at: float
    since: float


class Catalog:
    """The dumps in one folder; `rows` are those of the newest `last`."""

    def __init__(self, path: str, last: int) -> None:
        self.rows: dict[int, DumpRow] = {}
        self._path = path
        self._last = last
        self._folder = Folder(path)
        self._first = True
        self._names: dict[int, str] = {}
        self._odd: set[str] = set()
        self._states: dict[int, DumpState] = {}
        self._totals: collections.Counter[DumpState] = collections.Counter()
        self._old: set[int] = set()  # found by the first listing, not looked at yet
        self._queue: list[int] = []  # they, and maybe some that are done with, in ascending order
        self._quiet: dict[int, _Quiet] = {}
        self._rates = Rates()
        self._attempts = Attempts()
        self._touched: set[int] = set()  # whose row came, changed or went in this refresh
        self._rechecked = 0.0
        self._looked = time.monotonic()  # when it was last known what is there

    def refresh(self, look_s: float) -> None:
        """Take in what changed; spend at most about `look_s` seconds on older dumps. Raises OSError, Replaced."""
        changes = self._folder.changes()
        for name in changes.removed:
            self._drop(name)
        added = {number for number in map(self._add, changes.added) if number is not None}
        if changes.added or changes.removed:
            self._slide(added, bool(changes.removed))
        if self._first:
            self._old = added.difference(self.rows)
            self._queue = sorted(self._old)
            added = set(self.rows)
        finished = self._examine({*added, *self._unfinished()})
        while self._unread():
            finished += self._examine(self._unread())
        self._attempts.update(self.rows, self._touched)
        self._touched.clear()
        self._count(finished)
        self._first = False
        if changes.looked:
            self._looked = time.monotonic()
        self._look(look_s)

    def counts(self) -> DumpCounts:
        requests, tokens, size = self._rates.read(time.monotonic())
        return DumpCounts(
            complete=self._totals[DumpState.COMPLETE],
            writing=self._totals[DumpState.WRITING],
            bad=sum(self._totals[state] for state in _BAD),
            odd=tuple(heapq.nsmallest(NAMED_ODD, self._odd)),
            odd_total=len(self._odd),
            requests_per_s=requests,
            tokens_per_s=tokens,
            bytes_per_s=size,
        )

    def _add(self, name: str) -> Optional[int]:
        number = rows.number_of(name)
        if number is None:
            if not name.startswith("."):
                self._odd.add(name)
            return None
        if name.startswith(".") and number in self._names:
            return None
        self._names[number] = name
        return number

    def _drop(self, name: str) -> None:
        self._odd.discard(name)
        number = rows.number_of(name)
        if number is not None and self._names.get(number) == name:
            self._forget(number)

    def _forget(self, number: int) -> None:
        self._names.pop(number, None)
        self.rows.pop(number, None)
        self._touched.add(number)
        self._old.discard(number)
        self._set_state(number, None)

    def _slide(self, added: Iterable[int], shrunk: bool) -> None:
        """Move the window of rows to the newest numbers."""
        candidates = self._names if shrunk or self._first else {*self.rows, *added}
        newest = heapq.nlargest(self._last, candidates)
        before = self.rows
        self.rows = {number: before.get(number, _UNREAD) for number in newest}
        self._touched |= before.keys() - self.rows.keys()

    def _unread(self) -> list[int]:
        return [number for number, row in self.rows.items() if row is _UNREAD]

    def _unfinished(self) -> list[int]:
        """Dumps being written; from time to time also the partial ones that have a row."""
        now = time.monotonic()
        again = now - self._rechecked >= RECHECK_S
        if again:
            self._rechecked = now
        return [n for n in self._quiet if self._states.get(n) is DumpState.WRITING or (again and n in self.rows)]

    def _examine(self, numbers: Iterable[int]) -> list[DumpRow]:
        """Look at these dumps; the rows of those that were finished since the last look."""
        finished = []
        odd = len(self._odd)
        for number in numbers:
            row = self._row(number)
            if row is None:
                continue
            before = self._states.get(number)
            if row.state is DumpState.COMPLETE and before is not DumpState.COMPLETE and number not in self._old:
                finished.append(row)
            self._old.discard(number)
            self._set_state(number, row.state)
            if number in self.rows:
                self.rows[number] = row
                self._touched.add(number)
        if len(self._odd) != odd:
            self._slide((), shrunk=True)
        return finished

    def _row(self, number: int) -> Optional[DumpRow]:
        """The row of a dump as it is now; None, and forgotten, when its name turns out to be no dump's."""
        name = self._names.get(number)
        if name is None:
            return None
        row = rows.examine(self._path, name)
        if row is not None and row.state is DumpState.GONE and name.startswith("."):
            row = rows.examine(self._path, f"req_{number}")  # renamed just now
        if row is None:
            self._forget(number)
            self._odd.add(name)
            return None
        if row.state not in (DumpState.WRITING, DumpState.PARTIAL):
            self._quiet.pop(number, None)
            return row
        return rows.settle(row, self._age(row))

    def _age(self, row: DumpRow) -> float:
        """Seconds since the unfinished dump last changed; by the wall clock only for what is seen the first time."""
        now = time.monotonic()
        quiet = self._quiet.get(row.number)
        if quiet is None:
            quiet = _Quiet(row.at, now - max(0.0, time.time() - row.at))
        elif quiet.at != row.at:
            quiet = _Quiet(row.at, now)
        self._quiet[row.number] = quiet
        return now - quiet.since

    def _set_state(self, number: int, state: Optional[DumpState]) -> None:
        before = self._states.pop(number, None)
        if before is not None:
            self._totals[before] -= 1
        if state is None:
            self._quiet.pop(number, None)
            return
        self._states[number] = state
        self._totals[state] += 1

    def _count(self, finished: list[DumpRow]) -> None:
        """Into the rates. Of the first listing only what was finished in the last seconds by its own timestamp.

        Later ones came at some time since the last look, which may be long ago: where the agent was stopped, or the
        folder is listed seldom, all of them at once would make a rate that never was.
        """
        now, wall = time.monotonic(), time.time()
        if self._first:
            finished = sorted((row for row in finished if 0 <= wall - row.at < WINDOW_S), key=lambda row: row.at)
        for index, row in enumerate(finished, 1):
            ago = wall - row.at if self._first else (now - self._looked) * (1 - index / len(finished))
            self._rates.add(now - ago, row.tokens or 0, row.size)

    def _look(self, seconds: float) -> None:
        """Look for `done` in older dumps, newest first, until the time is spent."""
        end = time.monotonic() + seconds
        while self._queue and time.monotonic() < end:
            number = self._queue.pop()
            if number not in self._old:
                continue
            if self._done(os.path.join(self._path, self._names[number])):
                self._set_state(number, DumpState.COMPLETE)
            else:
                self._examine([number])
            self._old.discard(number)

    def _done(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(path).st_mode) and os.path.lexists(os.path.join(path, "done"))
        except OSError:
            return False


_UNREAD = DumpRow(-1, DumpState.GONE, 0.0)
