"""Dumps of one request, which a client sent again under the same rid: the newest complete one is accepted.

Every older one is superseded by the next complete one, so that a new dump changes the rows of its own request alone.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import os
from collections.abc import Iterable
from typing import Optional

from remote.wire.dumps import DumpRow, DumpState

from . import meta as metadata
from . import rows as examined
from .files import read_small

FAR = 10_000  # newer dumps among which one is looked for


class Attempts:
    """What is known of the rids of rows. Costs what changed."""

    def __init__(self) -> None:
        self._rids: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}  # ascending

    def update(self, rows: dict[int, DumpRow], touched: Iterable[int]) -> None:
        """Say in `rows` which are superseded. touched: numbers that came, changed or went since the last time."""
        places = set()
        for number in touched:
            before, row = self._rids.pop(number, None), rows.get(number)
            if before is not None:
                self._numbers[before].remove(number)
                places.add((before, number))
            if row is not None and row.rid is not None:
                self._rids[number] = row.rid
                bisect.insort(self._numbers.setdefault(row.rid, []), number)
                places.add((row.rid, number))
        for rid, number in places:
            self._tell(rid, number, rows)

    def _tell(self, rid: str, number: int, rows: dict[int, DumpRow]) -> None:
        """Of `number`, and of those before it down to the nearest complete one, say what supersedes them."""
        numbers = self._numbers[rid]
        if not numbers:
            del self._numbers[rid]
            return
        behind = bisect.bisect_right(numbers, number)
        later = (numbers[at] for at in range(behind, len(numbers)))
        by = next((other for other in later if _complete(rows[other])), None)
        for at in range(behind - 1, -1, -1):
            one = numbers[at]
            if rows[one].superseded_by != by:
                rows[one] = dataclasses.replace(rows[one], superseded_by=by)
            if _complete(rows[one]):
                if one != number:
                    return
                by = one


def superseded_by(dump_dir: str, number: int, rid: str) -> Optional[int]:
    """The next complete dump of the same request, if it is among the `FAR` dumps behind this one. Never raises."""
    try:
        found = [at for at in map(examined.number_of, os.listdir(dump_dir)) if at is not None and at > number]
    except OSError:
        return None
    words = json.dumps(rid).encode("ascii")
    for other in sorted(found)[:FAR]:
        name = f"req_{other}"
        if words in _text(os.path.join(dump_dir, name)):
            row = examined.examine(dump_dir, name)
            if row is not None and row.rid == rid and _complete(row):
                return other
    return None


def _text(path: str) -> bytes:
    try:
        return read_small(os.path.join(path, "meta.json"), metadata.LIMIT)
    except OSError:
        return b""


def _complete(row: DumpRow) -> bool:
    return row.state is DumpState.COMPLETE
