"""What the verdicts of a canary and of a test request are called, wherever they are told."""

from __future__ import annotations

from collections.abc import Iterable

from console.text import span
from remote.wire.dumps import DumpTest
from remote.wire.plan import Check, StepResult, Verdict
from remote.wire.server import Phase, ServerState

NAMES = {
    Verdict.OK: "well",
    Verdict.WARN: "in doubt",
    Verdict.BAD: "faulty",
    Verdict.UNKNOWN: "unknown",
}
WORDS = {
    Verdict.OK: "the dumps of this server mean what they should",
    Verdict.WARN: "look at what is marked",
    Verdict.BAD: "do NOT use the dumps of this server",
    Verdict.UNKNOWN: "not everything could be looked at",
}
CANCELLED = "cancelled: it says nothing"
WAITING = "four requests; the first one after a start compiles kernels, which takes a minute or two on GPUs"


def last_told(server: ServerState) -> str:
    """What the last canary of a running server said, in a line; empty where there is nothing to prove."""
    if server.phase not in (Phase.READY, Phase.UNHEALTHY) or server.patch_loaded is None:
        return ""
    if server.canary is None:
        return "none since this start: hsconsole canary"
    ago = span(max(server.at - server.canary.at, 0.0))
    return f"{NAMES[server.canary.verdict]}, {ago} ago: {WORDS[server.canary.verdict]}"


def besides(steps: Iterable[StepResult], checks: Iterable[Check]) -> tuple[StepResult, ...]:
    """Steps that none of `checks` tells: what became of the link, and a record that could not be written."""
    told = {check.name for check in checks}
    return tuple(step for step in steps if step.title not in told)


def tested(found: DumpTest) -> str:
    """`req_7: every check is well`, or that it is not so."""
    where = "no dump" if found.number is None else f"req_{found.number}"
    return f"{where}: {'every check is well' if found.ok else 'NOT what was asked for'}"
