"""How long the rows of each tensor usually are, learned from dumps, and what is unusual about one dump.

Everything is about ln |row|. Over the dumps learned from, four numbers of each tensor are collected: the median of the
rows, the shortest and the longest row, and the first row (the attention sink of most models, often a hundred times
longer). Of each number the median over dumps is the centre, and 1.4826 × the median absolute deviation its spread, so
that some bad dumps among those learned from change nothing. A number is usual within SIGMAS spreads and a margin of
its centre. The median of a short prompt scatters more: the spread of rows by the root of their number is added.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Optional

from remote.wire.plan import Check, Verdict

from .content import numpy
from .dump import Dump
from .verdict import judge, unknown

SIGMAS = 6.0
MEDIAN_MARGIN = math.log(1.02)
ROW_MARGIN = math.log(2.0)
LEAST_DUMPS = 8  # of different prompts, to learn from
_MAD = 1.4826  # makes the median absolute deviation a standard deviation, for a normal distribution
_MEDIAN_ERROR = 1.2533  # standard error of a median of n values, × spread / √n
_REMEDY = (
    "Compare with the canary: hsconsole canary. When the model or its weights were changed on purpose, delete the file "
    "of learned norms."
)


@dataclasses.dataclass(frozen=True)
class Usual:
    """Of one number over the dumps learned from, in ln: its median, and 1.4826 × its median absolute deviation."""

    centre: float
    spread: float

    def surprise(self, value: float, margin: float, more: float = 0.0) -> float:
        """How far `value` is beyond what is usual, 0 within; in ln."""
        return max(0.0, abs(value - self.centre) - margin - SIGMAS * math.hypot(self.spread, more))


@dataclasses.dataclass(frozen=True)
class TensorNorms:
    """Of one tensor. rows: the spread of rows within a dump."""

    median: Usual
    shortest: Usual
    longest: Usual
    first: Usual
    rows: float


@dataclasses.dataclass(frozen=True)
class Norms:
    """tensors: by `key_of`. dumps: how many were learned from. source: where this is from, in words."""

    tensors: dict[str, TensorNorms]
    dumps: int
    source: str = ""


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of one tensor of one dump. shortest_row, longest_row: counted from 0."""

    median: float
    rows: float
    count: int
    first: float
    shortest: float
    longest: float
    shortest_row: int
    longest_row: int


def key_of(dump: Dump, name: str) -> str:
    """What the rows are: tensors of one key can be compared. `name`: aux_0.pt … or final.pt."""
    layers = dump.meta.captured_at_layers or ()
    at = int(name[4:-3]) if name.startswith("aux_") else -1
    place = f"before layer {layers[at]}" if 0 <= at < len(layers) else name[:-3]
    return f"{place}, {dump.meta.hidden_size} columns"


def summary(module: Any, squares: Any) -> Optional[Summary]:
    """Of the sums of squares of rows; None when a row has no logarithm (zero, or not finite) or there is none."""
    if not len(squares) or not module.isfinite(squares).all() or not (squares > 0).all():
        return None
    logs = module.log(squares) / 2
    rest = logs[1:] if len(logs) > 1 else logs
    median = float(module.median(rest))
    offset = len(logs) - len(rest)
    return Summary(
        median=median,
        rows=_MAD * float(module.median(module.abs(rest - median))),
        count=len(rest),
        first=float(logs[0]),
        shortest=float(rest.min()),
        longest=float(rest.max()),
        shortest_row=int(rest.argmin()) + offset,
        longest_row=int(rest.argmax()) + offset,
    )


def summaries(dump: Dump) -> dict[str, Summary]:
    """Of all tensors, by key; empty when one has none. Reads the dump. Raises OSError, TensorProblem."""
    found: dict[str, Summary] = {}
    for name in dump.hidden:
        squares = dump.content(name).squares
        told = None if squares is None else summary(numpy(), squares)
        if told is None:
            return {}
        found[key_of(dump, name)] = told
    return found


def learn(module: Any, seen: Sequence[dict[str, Summary]], source: str) -> Norms:
    """seen: the summaries of dumps of different prompts, by key. A key that fewer than LEAST_DUMPS have is left out."""
    by_key = {key: [one[key] for one in seen if key in one] for key in sorted({key for one in seen for key in one})}
    enough = {key: _learned(module, told) for key, told in by_key.items() if len(told) >= LEAST_DUMPS}
    return Norms(enough, len(seen), source)


def check(dump: Dump, norms: Optional[Norms]) -> Check:
    """BAD when a tensor as a whole is longer or shorter than is usual, WARN when single rows are."""
    if norms is None:
        return unknown("norms", f"nothing to learn from: that takes {LEAST_DUMPS} good dumps of different prompts")
    module = numpy()
    bad, odd = [], []
    for name in dump.hidden:
        found = dump.content(name)
        known = norms.tensors.get(key_of(dump, name))
        if found.squares is None:
            return unknown("norms", found.unread)
        if known is None:
            few = f"that takes {LEAST_DUMPS} good dumps of different prompts"
            return unknown("norms", f"nothing learned for {name} ({key_of(dump, name)}): {few}")
        told = summary(module, found.squares)
        if told is None:
            bad.append(f"{name} has rows without a norm")
            continue
        bad += _whole(name, told, known)
        odd += _rows(name, told, known)
    if bad or not odd:
        fine = f"as usual, by {norms.dumps} dumps ({norms.source})"
        return judge("norms", [*bad, *odd], fine, _REMEDY)
    return Check("norms", Verdict.WARN, "; ".join(odd[:4]), _REMEDY)


def _whole(name: str, told: Summary, known: TensorNorms) -> list[str]:
    scatter = _MEDIAN_ERROR * max(known.rows, told.rows) / math.sqrt(told.count)
    if not known.median.surprise(told.median, MEDIAN_MARGIN, scatter):
        return []
    times = math.exp(told.median - known.median.centre)
    return [f"{name}: its rows are {times:.3g} × as long as usual ({math.exp(told.median):.4g})"]


def _rows(name: str, told: Summary, known: TensorNorms) -> list[str]:
    looks = (
        (known.first, told.first, 0),
        (known.shortest, told.shortest, told.shortest_row),
        (known.longest, told.longest, told.longest_row),
    )
    return [
        f"{name}: row {row} has norm {math.exp(value):.4g}, usual there is {math.exp(usual.centre):.4g}"
        for usual, value, row in looks
        if usual.surprise(value, ROW_MARGIN)
    ]


def _learned(module: Any, seen: Sequence[Summary]) -> TensorNorms:
    return TensorNorms(
        median=_usual(module, [one.median for one in seen]),
        shortest=_usual(module, [one.shortest for one in seen]),
        longest=_usual(module, [one.longest for one in seen]),
        first=_usual(module, [one.first for one in seen]),
        rows=float(module.median([one.rows for one in seen])),
    )


def _usual(module: Any, values: Sequence[float]) -> Usual:
    centre = float(module.median(values))
    return Usual(centre, _MAD * float(module.median(module.abs(module.asarray(values) - centre))))
