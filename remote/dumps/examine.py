"""The verdict over one dump, at the levels of structure and content."""

from __future__ import annotations

import os
import time
from typing import Optional

from remote.wire.dumps import DumpState, Level, Verified, VerifyResult
from remote.wire.plan import Check, Verdict

from . import checks, counter, norms, rows
from .dump import Dump
from .files import listing
from .norms import Norms

_BY_STATE = {
    DumpState.GONE: Verified.GONE,
    DumpState.WRITING: Verified.WRITING,
    DumpState.ERROR: Verified.ERROR,
    DumpState.PARTIAL: Verified.BAD,
    DumpState.CORRUPT: Verified.BAD,
}
_DELETION_S = 0.05  # the next file of a directory that is being deleted is gone by then
_BOTH = (checks.STRUCTURE, checks.CONTENT)
_BY_VERDICT = ((Verdict.BAD, Verified.BAD), (Verdict.UNKNOWN, Verified.UNVERIFIED), (Verdict.WARN, Verified.WARN))


def examine(dump_dir: str, name: str, level: Level, known: Optional[Norms]) -> VerifyResult:
    """`name`: `req_N`, or `.req_N.<pid>`. known: what norms are compared with.

    Never raises for what is in the folder.
    """
    path = os.path.join(dump_dir, name)
    number = rows.number_of(name) or 0
    try:
        dump = Dump(path, number, numbers=level is not Level.STRUCTURE)
    except OSError:
        return _by_row(dump_dir, name, level)
    if "done" not in dump.sizes or "error" in dump.sizes:
        return _by_row(dump_dir, name, level)
    made = list(checks.run(dump, None, (checks.STRUCTURE,) if level is Level.STRUCTURE else _BOTH))
    if level is not Level.STRUCTURE:
        made.append(_norms(dump, known, made))
    verdict = verdict_of(made)
    if verdict is not Verified.OK and _taken(path, dump):
        return VerifyResult(number, Verified.GONE, level)
    told = tuple(check for check in made if check.verdict is not Verdict.OK)
    return VerifyResult(number, verdict, level, told, sum(dump.sizes.values()), dump.meta.rid, dump.meta.num_tokens)


def _taken(path: str, dump: Dump) -> bool:
    """Whether a consumer takes the dump away: no file of a finished one ever changes otherwise."""
    missing = any(name not in dump.sizes for name in dump.meta.names)
    for pause in (0.0, _DELETION_S) if missing else (0.0,):
        time.sleep(pause)
        try:
            if not dump.sizes.keys() <= listing(path).keys():
                return True
        except OSError:
            return True
    return False


def verdict_of(made: list[Check]) -> Verified:
    """The worst of them: what could not be looked at is worse than what looks odd."""
    found = {check.verdict for check in made}
    return next((verdict for sign, verdict in _BY_VERDICT if sign in found), Verified.OK)


def _norms(dump: Dump, known: Optional[Norms], made: list[Check]) -> Check:
    if any(check.verdict is Verdict.BAD for check in made):
        return Check("norms", Verdict.UNKNOWN, "not looked at: the dump is bad as it is")
    return norms.check(dump, known)


def _by_row(dump_dir: str, name: str, level: Level) -> VerifyResult:
    row = rows.examine(dump_dir, name)
    if row is None:
        note = f"{name} is no directory"
        return VerifyResult(rows.number_of(name) or 0, Verified.BAD, level, (Check("dump", Verdict.BAD, note),))
    # by the counter alone: without one, the newest of all may have been taken while others were verified
    never = counter.never_was(row.number, counter.unclaimed(dump_dir)) if row.state is DumpState.GONE else ""
    if never:
        none = Check("dump", Verdict.UNKNOWN, never, "Those that are there: hsconsole dumps list.")
        return VerifyResult(row.number, Verified.UNVERIFIED, level, (none,))
    row = rows.settle(row, time.time() - row.at)
    # COMPLETE: finished since it was looked at; the next verification sees it
    verdict = _BY_STATE.get(row.state, Verified.WRITING)
    told = () if verdict in (Verified.GONE, Verified.WRITING) else (Check("dump", Verdict.BAD, row.note),)
    return VerifyResult(row.number, verdict, level, told, row.size, row.rid, row.tokens)
