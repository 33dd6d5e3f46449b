"""The dumped requests the screen knows of: newest first, filtered, quick at 100,000 rows."""

from __future__ import annotations

from bisect import bisect_left

from remote.wire.dumps import DumpCounts, DumpRow, DumpsChange

MOST_ROWS = 100_000
FEW = 200  # changed rows that are placed one by one; more are sorted at once


class DumpList:
    """Rows by number. `shown` holds the numbers that match the filter, in ascending order: the newest is last."""

    def __init__(self) -> None:
        self.rows: dict[int, DumpRow] = {}
        self.counts = DumpCounts()
        self.problem = ""
        self.needle = ""
        self.shown: list[int] = []
        self.longest_rid = 0  # characters, of all that were ever here: columns never jump back

    def __len__(self) -> int:
        return len(self.shown)

    def at(self, index: int) -> DumpRow:
        """The row at `index`, 0 the newest."""
        return self.rows[self.shown[-1 - index]]

    def number_at(self, index: int) -> int:
        return self.shown[-1 - index]

    def index_of(self, number: int) -> int | None:
        """Where `number` is shown, 0 the newest; None when it is not."""
        place, there = self._find(number)
        return len(self.shown) - 1 - place if there else None

    def change(self, change: DumpsChange) -> None:
        self.counts, self.problem = change.counts, change.problem
        if change.reset:
            self.rows, self.shown = {}, []
        self.rows.update((row.number, row) for row in change.rows)
        for number in change.removed:
            self.rows.pop(number, None)
        self.longest_rid = max(self.longest_rid, max((len(row.rid or "") for row in change.rows), default=0))
        touched = [*(row.number for row in change.rows), *change.removed]
        if len(touched) > FEW or len(self.rows) > MOST_ROWS + FEW:
            self._show()
            return
        for number in touched:
            self._place(number)

    def filter(self, needle: str) -> None:
        """Show only rows whose number, rid, state or note contains `needle`, whatever its case."""
        self.needle = needle.strip().casefold()
        self._show()

    def _show(self) -> None:
        numbers = sorted(self.rows)
        for number in numbers[:-MOST_ROWS]:
            del self.rows[number]
        self.shown = [number for number in numbers[-MOST_ROWS:] if self._wanted(number)]

    def _place(self, number: int) -> None:
        """Put one number where it belongs now."""
        place, there = self._find(number)
        wanted = self._wanted(number)
        if wanted and not there:
            self.shown.insert(place, number)
        elif there and not wanted:
            del self.shown[place]

    def _find(self, number: int) -> tuple[int, bool]:
        place = bisect_left(self.shown, number)
        return place, place < len(self.shown) and self.shown[place] == number

    def _wanted(self, number: int) -> bool:
        row = self.rows.get(number)
        if row is None or not self.needle:
            return row is not None
        return self.needle in f"{number} {row.rid or ''} {row.state.value} {row.remark}".casefold()
