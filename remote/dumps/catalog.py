"""What is known about the newest dumps in the folder, kept up to date at the cost of what changed.

The newest EXAMINED dumps are examined (names, sizes, meta.json), and of them alone the counts tell which are complete,
being written or bad, however many somebody wants listed: so everybody who counts one folder counts the same. Older
dumps are only counted.
"""

from __future__ import annotations

import bisect
import collections
import heapq
import itertools
import time
from collections.abc import Iterable
from typing import NamedTuple, Optional

from remote.wire.dumps import DumpCounts, DumpRow, DumpState

from . import counter, rows
from .attempts import Attempts
from .folder import Folder
from .rates import WINDOW_S, Rates

EXAMINED = 1000
NAMED_ODD = 20  # odd names that are told, beside their number
RECHECK_S = 5.0  # a partial dump may go on
_MANY = 1000  # numbers that go at once; so many are sorted out rather than taken out one by one
_BAD = (DumpState.PARTIAL, DumpState.CORRUPT, DumpState.ERROR)


class _Quiet(NamedTuple):
    """A dump without `done`: when it last changed, and when (monotonic) that was, so a clock jump ages nothing."""

    at: float
    since: float


class Catalog:
    """The dumps in one folder; `rows` are those of the newest `last`, and of EXAMINED at least, newest first."""

    def __init__(self, path: str, last: int) -> None:
        self.rows: dict[int, DumpRow] = {}
        self._path = path
        self._last = max(last, EXAMINED)
        self._folder = Folder(path)
        self._first = True
        self._names: dict[int, str] = {}
        self._order: list[int] = []  # the numbers of those names, ascending
        self._odd: set[str] = set()
        self._given = 0
        self._quiet: dict[int, _Quiet] = {}
        self._rates = Rates()
        self._attempts = Attempts()
        self._touched: set[int] = set()  # whose row came, changed or went in this refresh
        self._rechecked = 0.0
        self._looked = time.monotonic()  # when it was last known what is there

    def refresh(self) -> None:
        """Take in what changed. Raises OSError, Replaced."""
        changes = self._folder.changes()
        self._leave([number for number in map(self._drop, changes.removed) if number is not None])
        added = {number for number in map(self._add, changes.added) if number is not None}
        self._enter(added)
        if changes.added or changes.removed or self._first:
            self._slide()
            self._given = max(self._given, counter.unclaimed(self._path) or 0, max(added, default=-1) + 1)
        finished = self._examine(list(self.rows) if self._first else {*added, *self._unfinished()})
        while self._unread():
            self._examine(self._unread())  # older ones that took the place of some that went: no news for the rates
        self._attempts.update(self.rows, self._touched)
        self._touched.clear()
        self._count(finished)
        self._first = False
        if changes.looked:
            self._looked = time.monotonic()

    def counts(self) -> DumpCounts:
        requests, tokens, size = self._rates.read(time.monotonic())
        states = collections.Counter(row.state for row in itertools.islice(self.rows.values(), EXAMINED))
        return DumpCounts(
            complete=states[DumpState.COMPLETE],
            writing=states[DumpState.WRITING],
            bad=sum(states[state] for state in _BAD),
            older=max(len(self._names) - EXAMINED, 0),
            given=self._given,
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

    def _enter(self, numbers: Iterable[int]) -> None:
        """Into the order; most are the newest."""
        for number in sorted(numbers):
            at = bisect.bisect_left(self._order, number)
            if self._order[at : at + 1] != [number]:
                self._order.insert(at, number)

    def _leave(self, numbers: list[int]) -> None:
        if len(numbers) > _MANY:
            self._order = sorted(self._names)
            return
        for number in numbers:
            del self._order[bisect.bisect_left(self._order, number)]

    def _drop(self, name: str) -> Optional[int]:
        """The number whose dump that was, which is forgotten."""
        self._odd.discard(name)
        number = rows.number_of(name)
        if number is None or self._names.get(number) != name:
            return None
        self._forget(number)
        return number

    def _forget(self, number: int) -> None:
        self._names.pop(number, None)
        self.rows.pop(number, None)
        self._touched.add(number)
        self._quiet.pop(number, None)

    def _slide(self) -> None:
        """Move the window of rows to the newest numbers."""
        before = self.rows
        self.rows = {number: before.get(number, _UNREAD) for number in reversed(self._order[-self._last :])}
        gone = before.keys() - self.rows.keys()
        self._touched |= gone
        for number in gone:
            self._quiet.pop(number, None)

    def _unread(self) -> list[int]:
        return [number for number, row in self.rows.items() if row is _UNREAD]

    def _unfinished(self) -> list[int]:
        """Dumps being written; from time to time also the partial ones."""
        now = time.monotonic()
        again = now - self._rechecked >= RECHECK_S
        if again:
            self._rechecked = now
        return [number for number in self._quiet if again or self.rows[number].state is DumpState.WRITING]

    def _examine(self, numbers: Iterable[int]) -> list[DumpRow]:
        """Look at these dumps; the rows of those that were finished since the last look."""
        finished = []
        odd = len(self._odd)
        for number in numbers:
            row = self._row(number)
            if row is None:
                continue
            before = self.rows.get(number)
            if row.state is DumpState.COMPLETE and (before is None or before.state is not DumpState.COMPLETE):
                finished.append(row)
            if before is None:  # so many came at once that it is among the older ones already
                self._quiet.pop(number, None)
                continue
            self.rows[number] = row
            self._touched.add(number)
        if len(self._odd) != odd:
            self._slide()
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
            self._leave([number])
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


_UNREAD = DumpRow(-1, DumpState.GONE, 0.0)
