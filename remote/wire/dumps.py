"""Dumped requests: rows for a list, details for one, the report of a test request."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Optional

from .plan import Check


class DumpState(str, enum.Enum):
    COMPLETE = "complete"
    WRITING = "writing"  # no `done`, but changed lately
    PARTIAL = "partial"  # no `done`, nothing changed for a minute
    CORRUPT = "corrupt"  # `done`, but files and metadata disagree
    ERROR = "error"  # the dumper said so itself
    GONE = "gone"  # a consumer took it


@dataclasses.dataclass(frozen=True)
class DumpRow:
    """One req_N. at: when it was completed or last changed (container's clock). size: bytes of all its files."""

    number: int
    state: DumpState
    at: float
    tokens: Optional[int] = None
    size: int = 0
    layers: tuple[int, ...] = ()
    rid: Optional[str] = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class DumpCounts:
    """Over all dumps in the folder, also those older than the rows; rates are over the last ten seconds.

    complete: with `done`, and not found wrong; older dumps are only looked through for `done`, after the rows.
    writing: see DumpState. bad: found partial, corrupt (as is what can't be read) or with an error.
    odd: some of the names that are no request; odd_total: how many there are.
    """

    complete: int = 0
    writing: int = 0
    bad: int = 0
    odd: tuple[str, ...] = ()
    odd_total: int = 0
    requests_per_s: float = 0.0
    tokens_per_s: float = 0.0
    bytes_per_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class DumpsChange:
    """What changed in the dump folder since the last one. reset: forget all rows first.

    rows: new or changed ones among the newest, newest first. removed: rows that are no longer among the newest,
    deleted or pushed out. problem: why the folder can't be listed; then there are no rows.
    """

    at: float
    reset: bool
    rows: tuple[DumpRow, ...]
    removed: tuple[int, ...]
    counts: DumpCounts
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class DumpFile:
    """expected: bytes of payload by the metadata (rows × hidden size × item size), None where not known."""

    name: str
    size: int
    payload: Optional[int] = None
    expected: Optional[int] = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class DumpDetail:
    row: DumpRow
    path: str
    meta: dict[str, Any] = dataclasses.field(default_factory=dict)
    files: tuple[DumpFile, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclasses.dataclass(frozen=True)
class DumpTest:
    """The test request: its dump and every check. ok only if all checks are."""

    ok: bool
    rid: str
    seconds: float
    number: Optional[int]
    checks: tuple[Check, ...]
