"""Two computations of the same rows held against each other."""

from __future__ import annotations

from typing import Any

from remote.wire.plan import Check, Verdict

from . import tolerance
from .states import States

_REPEAT = "Something other than the prompt decides what is dumped: check the patch, the flags and the server's log."


def errors(numpy: Any, found: Any, wanted: Any) -> Any:
    """Relative error of each row, |found - wanted| / |wanted|; NaN counts as infinite."""
    with numpy.errstate(all="ignore"):
        size = numpy.linalg.norm(wanted.astype("f8"), axis=-1)
        apart = numpy.linalg.norm(found.astype("f8") - wanted, axis=-1)
        relative = apart / numpy.maximum(size, 1e-30)
    return numpy.where(numpy.isfinite(relative), relative, numpy.inf)


def same(numpy: Any, name: str, found: States, wanted: States, rows: int, fine: str) -> Check:
    """Whether the first `rows` rows of all tensors agree within the tolerance of their dtype."""
    if (found.dtype, found.columns) != (wanted.dtype, wanted.columns):
        return Check(name, Verdict.BAD, f"other tensors: {_kind(found)}, not {_kind(wanted)}", _REPEAT)
    if min(found.rows, wanted.rows) < rows:
        return Check(name, Verdict.BAD, f"{min(found.rows, wanted.rows)} rows where {rows} are to be compared", _REPEAT)
    allowed = tolerance.of_rows(wanted.dtype)
    problems, worst = [], 0.0
    for tensor, values in wanted.tensors.items():
        apart = errors(numpy, found.tensors[tensor][:rows], values[:rows])
        beyond = numpy.flatnonzero(apart > allowed.row)
        worst = max(worst, float(apart.max()))
        if len(beyond) > allowed.beyond(rows) or apart.max() > allowed.farthest:
            row = int(apart.argmax())
            problems.append(f"{tensor}: {len(beyond)} of {rows} rows differ, most row {row} by {apart[row]:.2g}")
    if problems:
        return Check(name, Verdict.BAD, "; ".join(problems) + f" (tolerance {allowed.row:.2g})", _REPEAT)
    share = f" for all but {allowed.share:.0%} of rows" if allowed.share else ""
    return Check(name, Verdict.OK, f"{fine}: worst {worst:.2g}, tolerance {allowed.row:.2g}{share}")


def _kind(states: States) -> str:
    return f"{states.dtype}, columns of " + ", ".join(f"{name}: {count}" for name, count in states.columns.items())


def unlike(numpy: Any, found: States, other: States) -> str:
    """What to say when two different prompts gave the same rows; empty when they differ as they should."""
    rows = min(found.rows, other.rows)
    allowed = tolerance.of_rows(found.dtype)
    for tensor, values in found.tensors.items():
        if found.columns[tensor] != other.columns.get(tensor):
            continue
        apart = errors(numpy, other.tensors[tensor][:rows], values[:rows])
        alike = int((apart <= allowed.row).sum())
        if alike > allowed.share * rows:
            return f"{tensor}: {alike} of {rows} rows are those of another prompt"
    return ""
