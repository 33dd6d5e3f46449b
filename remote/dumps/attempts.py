"""Dumps of one request, which a client sent again under the same rid: the newest complete one is accepted.

Every older one is superseded by the next complete one, so that a new dump changes the rows of its own request alone.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from typing import Optional

from remote.wire.dumps import DumpRow, DumpState

from . import meta as metadata
from . import rows as examined
from .files import read_small

FAR = 10_000  # newer dumps among which one is looked for


class Attempts:
    """What is known of the rids of rows. Costs what changed, and a look at each row of a rid of which one did."""

    def __init__(self) -> None:
        self._rids: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}  # ascending

    def update(self, rows: dict[int, DumpRow], touched: Iterable[int]) -> None:
        """Say in `rows` which are superseded. touched: numbers that came, changed or went since the last time."""
        changed = collections.defaultdict(set)
        for number in touched:
            row = rows.get(number)
            for rid in (self._rids.pop(number, None), None if row is None else row.rid):
                if rid is not None:
                    changed[rid].add(number)
            if row is not None and row.rid is not None:
                self._rids[number] = row.rid
        for rid, numbers in changed.items():
            kept = [number for number in self._numbers.pop(rid, ()) if number not in numbers]
            there = sorted([*kept, *(number for number in numbers if self._rids.get(number) == rid)])
            if there:
                self._numbers[rid] = there
                _tell(there, rows)


def superseded_by(dump_dir: str, number: int, rid: str) -> Optional[int]:
    """The next complete dump of the same request, if it is among the `FAR` dumps behind this one. Never raises."""
    try:
        found = [at for at in map(examined.number_of, os.listdir(dump_dir)) if at is not None and at > number]
    except OSError:
        return None
    words = json.dumps(rid[: metadata.RID_KEPT])[:-1].encode("ascii")  # the beginning: a long rid is told shortened
    for other in sorted(found)[:FAR]:
        name = f"req_{other}"
        if words in _text(os.path.join(dump_dir, name)):
            row = examined.examine(dump_dir, name)
            if row is not None and row.rid == rid and _complete(row):
                return other
    return None


def _tell(numbers: Sequence[int], rows: dict[int, DumpRow]) -> None:
    """Say of each of these, the attempts at one request in ascending order, what supersedes it."""
    by = None
    for number in reversed(numbers):
        if rows[number].superseded_by != by:
            rows[number] = dataclasses.replace(rows[number], superseded_by=by)
        if _complete(rows[number]):
            by = number


def _text(path: str) -> bytes:
    try:
        return read_small(os.path.join(path, "meta.json"), metadata.LIMIT)
    except OSError:
        return b""


def _complete(row: DumpRow) -> bool:
    return row.state is DumpState.COMPLETE
