"""Ask a server that says it is ready for one token, when somebody wants to know: never by the clock.

The request is of the kind that the dumper leaves out.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Optional

from remote import interpreter, processes
from remote.dumps.generate import Generate
from remote.server import answering, ask, find, judgement
from remote.server.command import DUMP_DIR
from remote.server.find import Found
from remote.wire.errors import ServerError
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

NAME = "requests"
DEADLINE = 10.0  # seconds; a server that is warm and idle needs a fraction of one
RIDS_FROM = (0, 5, 11)  # from here on the dumper sees of every pass whose it is
WORDS = {
    Verdict.OK: "answers a request of one token",
    Verdict.WARN: "works on other requests",
    Verdict.UNKNOWN: f"no answer within {DEADLINE:.0f} s, which may be well: for a first request "
    "kernels are compiled, and whether it works on others only its log tells",
    Verdict.BAD: f"answers /health, but not requests: none within {DEADLINE:.0f} s, and its log tells of no "
    "other work; of one long prompt it may tell only at its end",
}
COMPILES = (
    f"no answer within {DEADLINE:.0f} s, which may be well until {{until}}: kernels are compiled for a first request, "
    "and none from here has been answered"
)
REMEDIES = {
    Verdict.UNKNOWN: "Look again in a minute or two; or wait for the answer: hsconsole dumps test.",
    Verdict.BAD: "Look at its log; to end it: hsconsole server recover.",
}


def ask_for_a_token(target: Target) -> Check:
    """Send it and wait for at most DEADLINE. What comes of it is kept for the server's state."""
    found = find.find(target)
    why = _why_not(found, target)
    if why:
        return Check(NAME, Verdict.UNKNOWN, f"not asked: {why}")
    rid = f"HEALTH_CHECK_hsconsole_{uuid.uuid4().hex}"
    try:
        server = Generate(target, DEADLINE)
    except ServerError as error:
        return Check(NAME, Verdict.BAD, error.what, error.remedy)
    server.send([1], rid)
    answer = server.answer()
    if answer.problem and answer.came is not False:
        return Check(NAME, Verdict.WARN, f"asked for one token, it {answer.problem}")
    return Check(NAME, answer.told, _words(answer.told, target.port), REMEDIES.get(answer.told, ""))


def _words(told: Verdict, port: int) -> str:
    until = answering.compiles_until(port, judgement.serving(port)) if told is Verdict.UNKNOWN else None
    if until is None:
        return WORDS[told]
    return COMPILES.format(until=time.strftime("%H:%M:%S", time.localtime(until)))


def _why_not(found: Found, target: Target) -> str:
    if found.parent is None:
        return "no server runs"
    health = ask.Server(found.parent, target, found.record if found.ours else None).health()
    if health.status != 200:
        return f"it is not ready ({health.problem or health.status})"
    dumps = processes.environ(found.parent.pid).get(DUMP_DIR)
    if dumps and _release(found, target) < RIDS_FROM:
        return "on this release that would make a dump; the test request does"
    return ""


def _release(found: Found, target: Target) -> tuple[int, ...]:
    """Of the running server. () where nobody knows."""
    started: Optional[str] = found.record.sglang_version if found.record and found.ours else None
    version = started or interpreter.inspect(target.python, target.env).sglang_version or ""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version, re.ASCII)
    return tuple(map(int, numbers.groups())) if numbers else ()
