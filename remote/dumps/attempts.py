"""Dumps of one rid: a request that its client sent again, or that the server took back and prefilled again.

Sent again, the newest complete one counts: every older one of the same length is superseded by the next, so that a new
dump changes the rows of its own request alone. Taken back (retracted, when the server's cache was full), the prompt
comes again with the tokens that it had generated: that dump is longer than the one that counts, and says so.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from remote.wire.dumps import DumpRow, DumpState

from . import meta as metadata
from . import rows as examined
from .files import read_small

FAR = 10_000  # newer dumps among which one is looked for


class Attempt(NamedTuple):
    """accepted: complete, as far as is known."""

    number: int
    tokens: Optional[int]
    accepted: bool


class Standing(NamedTuple):
    """superseded_by, longer_than: see DumpRow."""

    superseded_by: Optional[int] = None
    longer_than: Optional[int] = None


def standings(attempts: Sequence[Attempt]) -> list[Standing]:
    """Of each dump of one rid, in ascending order of numbers."""
    longer: list[Optional[int]] = []
    shortest: Optional[Attempt] = None
    for one in attempts:
        grown = one.accepted and shortest is not None and (one.tokens or 0) > (shortest.tokens or 0)
        longer.append(shortest.number if grown and shortest is not None else None)
        if one.accepted and one.tokens is not None and not grown:
            shortest = one
    newest: Optional[int] = None
    next_of: dict[Optional[int], int] = {}  # by length
    by: list[Optional[int]] = []
    for one in reversed(attempts):
        by.append(next_of.get(one.tokens) if one.accepted else newest)
        if one.accepted:
            newest = next_of[one.tokens] = one.number
    return [Standing(*both) for both in zip(reversed(by), longer)]


class Attempts:
    """What is known of the rids of rows. Costs what changed, and a look at each row of a rid of which one did."""

    def __init__(self) -> None:
        self._rids: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}  # ascending

    def update(self, rows: dict[int, DumpRow], touched: Iterable[int]) -> None:
        """Say in `rows` how each stands to the others of its rid.

        touched: numbers that came, changed or went since the last time.
        """
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


def standing(dump_dir: str, row: DumpRow) -> Standing:
    """How `row` stands to others of its rid, among the `FAR` dumps before it and behind it. Never raises."""
    if row.rid is None:
        return Standing()
    found = examined.numbers(dump_dir)
    at = bisect.bisect_left(found, row.number)
    words = json.dumps(row.rid[: metadata.RID_KEPT])[:-1].encode("ascii")  # the beginning: a long one is told shortened
    others = [number for number in found[max(0, at - FAR) : at + FAR + 1] if number != row.number]
    same = [row]
    for name in (f"req_{number}" for number in others):
        other = examined.examine(dump_dir, name) if words in _text(os.path.join(dump_dir, name)) else None
        if other is not None and other.rid == row.rid:
            same.append(other)
    same.sort(key=lambda one: one.number)
    return dict(zip((one.number for one in same), standings(list(map(_attempt, same)))))[row.number]


def _tell(numbers: Sequence[int], rows: dict[int, DumpRow]) -> None:
    """Say of each of these, the dumps of one rid in ascending order, how it stands to the others."""
    for number, found in zip(numbers, standings([_attempt(rows[number]) for number in numbers])):
        if (rows[number].superseded_by, rows[number].longer_than) != found:
            rows[number] = dataclasses.replace(rows[number], **found._asdict())


def _text(path: str) -> bytes:
    try:
        return read_small(os.path.join(path, "meta.json"), metadata.LIMIT)
    except OSError:
        return b""


def _attempt(row: DumpRow) -> Attempt:
    return Attempt(row.number, row.tokens, row.state is DumpState.COMPLETE)
