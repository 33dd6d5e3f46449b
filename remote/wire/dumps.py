"""Dumped requests: rows for a list, details for one, the report of a test request."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Optional

from .plan import Check, Verdict


class DumpState(str, enum.Enum):
    COMPLETE = "complete"
    WRITING = "writing"  # no `done`, but changed lately
    PARTIAL = "partial"  # no `done`, nothing changed for a minute
    CORRUPT = "corrupt"  # `done`, but files and metadata disagree
    ERROR = "error"  # the dumper said so itself
    GONE = "gone"  # a consumer took it


@dataclasses.dataclass(frozen=True)
class DumpRow:
    """One req_N. at: when it was completed or last changed (container's clock). size: bytes of all its files.

    superseded_by: the next complete dump of the same rid and length: the client sent the request again, and the newest
    counts. longer_than: an older complete dump of the same rid, among those looked at, with fewer tokens: that one is
    the prompt.
    """

    number: int
    state: DumpState
    at: float
    tokens: Optional[int] = None
    size: int = 0
    layers: tuple[int, ...] = ()
    rid: Optional[str] = None
    note: str = ""
    superseded_by: Optional[int] = None
    longer_than: Optional[int] = None

    @property
    def remark(self) -> str:
        """What there is to say of it, in a line."""
        again = "" if self.superseded_by is None else f"superseded by req_{self.superseded_by}, the request sent again"
        longer = f"longer than req_{self.longer_than} of the same rid, which is its prompt: this one was retracted"
        return "; ".join(filter(None, (self.note, again, "" if self.longer_than is None else longer)))


@dataclasses.dataclass(frozen=True)
class DumpCounts:
    """The same whoever asks, and for however many rows; rates are over the last ten seconds.

    complete, writing, bad (partial, corrupt, unreadable, or with an error): of the newest 1,000 dumps.
    older: dumps beyond them; they were not looked at.
    given: numbers that were given to requests so far, whose dumps may be there or taken; 0 where that is not known.
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
    older: int = 0
    given: int = 0

    @property
    def there(self) -> int:
        """How many were counted at all."""
        return self.complete + self.writing + self.bad + self.older


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


class Level(str, enum.Enum):
    """How deep a verification goes; each level includes those before it."""

    STRUCTURE = "structure"  # files, sizes, metadata, checksums
    CONTENT = "content"  # every number
    MEANING = "meaning"  # against the running server, which gets the same prompt again


class Verified(str, enum.Enum):
    """What a verification says of one dump."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    UNVERIFIED = "unverified"  # a check could not be made
    ERROR = "error"  # the dumper said itself that this request has no states
    WRITING = "writing"
    GONE = "gone"


@dataclasses.dataclass(frozen=True)
class VerifyResult:
    """Of one dump. checks: those that are not OK. bytes: size of its files, as far as they were looked at.

    rid, tokens: of its request, where they are known.
    """

    number: int
    verdict: Verified
    level: Level
    checks: tuple[Check, ...] = ()
    bytes: int = 0
    rid: Optional[str] = None
    tokens: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class VerifyProgress:
    """Streamed while a verification runs. results: since the last one. done: results so far, of `total`."""

    results: tuple[VerifyResult, ...]
    done: int
    total: int


@dataclasses.dataclass(frozen=True)
class VerifySummary:
    """ok: no dump was found bad, odd or unverified. counts: dumps by verdict (values of Verified).

    norms: what the lengths of rows were compared with; empty at the level of structure. stopped: cancelled halfway.
    note: what went wrong beside the dumps, such as an audit log that can't be written.
    superseded: numbers of dumps whose request was sent again and has a newer dump among these that was not found wrong.
    longer: numbers of dumps of a rid of which an older one has fewer tokens: see DumpRow.
    """

    level: Level
    ok: bool
    counts: dict[str, int]
    bytes: int
    seconds: float
    norms: str = ""
    stopped: bool = False
    note: str = ""
    superseded: tuple[int, ...] = ()
    longer: tuple[int, ...] = ()

    @property
    def faulty(self) -> bool:
        """Whether a dump is not as it should be; where none is, what is not ok could only not be looked at."""
        return any(verdict.value in self.counts for verdict in (Verified.BAD, Verified.ERROR, Verified.WARN))


@dataclasses.dataclass(frozen=True)
class Canary:
    """Whether the running server's dumps mean what they should.

    verdict: the worst of `checks`, but for a comparison of ranks where there is one rank.
    dumps: their numbers; they are removed when all is well. stopped: cancelled before all was looked at.
    tolerances: what was tolerated and how that was calibrated, in a sentence; empty where nothing was compared.
    """

    verdict: Verdict
    seconds: float
    dumps: tuple[int, ...]
    checks: tuple[Check, ...]
    stopped: bool = False
    tolerances: str = ""

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.OK
