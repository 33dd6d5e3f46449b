"""The audit log's lines: what each says, and the chain of hashes that ties it to the one before.

A line is a JSON object in ASCII. Its `prev` is the SHA-256 of the line before (without its newline), so a line can't
be changed, taken out or put in without every later one being written anew. Nothing here is signed: who may write the
file may write all of it anew; then the other side's log, the laptop's or the container's, still tells.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import json
import uuid
from collections.abc import Collection
from typing import Any, Optional

from .codec import decode, encode
from .errors import ErrorReport, OperatorError, WireError
from .masking import mask_json
from .plan import StepResult

NOTHING = "0" * 64  # `prev` of the very first line
LONGEST_TEXT = 2000  # characters of one value
MOST_ITEMS = 500  # steps of an action, checks of an outcome


class AuditError(OperatorError):
    id = "audit"
    title = "The audit log could not be used"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line. at: UTC. id: the same in an action's begin and end, on the laptop and in the container.

    kind: "begin" and "end" of an action, "void" for one that may not begin any more; "genesis" starts a log, "rotated"
    goes on after `data.after` (a file's name), "torn" tells of a line before it that a crash cut off.
    who: user and host, or user and where the login came from.
    data: what begins (title, commands, losses, basis), or how it ended (steps, ok, summary, checks, or error).
    """

    kind: str
    at: str
    prev: str = NOTHING
    id: str = ""
    action: str = ""
    who: str = ""
    profile: str = ""
    data: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Ticket:
    """What an action carries to the container, for the log there. operator: as the laptop names them."""

    id: str
    operator: str
    profile: str
    commands: tuple[str, ...] = ()


class Became(str, enum.Enum):
    NEVER = "never begun"  # and it can't any more
    RUNNING = "still running"
    ENDED = "ended"
    CUT_OFF = "cut off"  # the process that did it is gone, and noted no end


@dataclasses.dataclass(frozen=True)
class Fate:
    """What became of an action, by the log of the container. at: when it began, UTC.

    Of one that ended: its steps, and its result or error as its call answered, or would have.
    """

    became: Became
    at: str = ""
    steps: tuple[StepResult, ...] = ()
    result: Any = None
    error: Optional[ErrorReport] = None


@dataclasses.dataclass(frozen=True)
class Misfit:
    """The first line that does not fit. line: 1-based."""

    file: str
    line: int
    what: str


@dataclasses.dataclass(frozen=True)
class ChainReport:
    """ok: every line fits the one before it. notes: what is odd but honest, such as a crash in the middle of a line."""

    ok: bool
    files: tuple[str, ...]
    lines: int
    misfit: Optional[Misfit] = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Entries:
    """The end of a log. path: its newest file."""

    path: str
    entries: tuple[Entry, ...]


def new_id() -> str:
    return uuid.uuid4().hex[:16]


def now() -> str:
    """UTC, to the millisecond: `2026-01-31T09:05:00.123Z`."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def line_of(entry: Entry) -> bytes:
    """Without its newline. Surrogates of undecodable names become escapes: always ASCII, never a second line."""
    return json.dumps(encode(entry), separators=(",", ":")).encode("ascii")


def parse(line: bytes) -> Entry:
    """Raises WireError when it is none."""
    try:
        return decode(Entry, json.loads(line))
    except (ValueError, RecursionError):
        raise WireError("it is no entry of an audit log") from None


def told(value: Any, secrets: Collection[str]) -> Any:
    """`value` as a log takes it: JSON, secrets masked, texts and lists cut to what there is room for."""
    # cut before too, as a text may have megabytes, but far behind what is kept: a secret cut in two is not found
    return bounded(mask_json(bounded(encode(value), 10 * LONGEST_TEXT), secrets))


def bounded(value: Any, longest: int = LONGEST_TEXT) -> Any:
    """JSON with its texts and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + "…"
    if isinstance(value, list):
        return [bounded(item, longest) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {name: bounded(item, longest) for name, item in list(value.items())[:MOST_ITEMS]}
    return value
