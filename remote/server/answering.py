"""Does the server answer requests? /health alone does not tell: what serves behind it may hang.

Noted of every request that is sent from here, for the server's state, and good for as long as that process lives.
"""

from __future__ import annotations

import time
from typing import Optional

from remote import processes
from remote.processes import Identity
from remote.server import judgement, log, progress
from remote.wire.plan import Verdict
from remote.wire.server import Judgement

# Seconds for the first answer of a server: on GPUs kernels are compiled for it, for 80 to 120 s as seen.
FIRST = 300.0


def note(port: int, server: Optional[Identity], came: bool, waited: float) -> Verdict:
    """What a request tells of `server`. waited: seconds, for an answer that came or did not.

    OK: it answers. WARN: it works on others'. BAD: it hangs. UNKNOWN: it may still compile kernels for its first, or be
    busy with others', for its log can't be read. What the log tells of others' before tells nothing: from 0.5.9 on a
    pass is logged behind it, so one over a long prompt looks like silence.
    """
    before = last(port, server)
    verdict = Verdict.OK if came else _of_silence(server, before, waited)
    if verdict is Verdict.BAD:
        lines = _log(server)
        if not lines:
            return Verdict.UNKNOWN
        if progress.busy_until(lines) >= time.time():
            return Verdict.WARN
    if verdict is not Verdict.UNKNOWN or before is None:  # the first tells since when it may compile
        judgement.keep(port, server, verdict, judgement.REQUESTS)
    return verdict


def last(port: int, server: Optional[Identity]) -> Optional[Judgement]:
    """What the last request told, of those that told anything."""
    return judgement.last(port, server, judgement.REQUESTS) if server is not None else None


def compiles_until(port: int, server: Optional[Identity]) -> Optional[float]:
    """Until when silence may be that of a first request, seconds since the epoch; None where it is not, or no more."""
    before = last(port, server)
    until = _grace(server, before) if before is not None else 0.0
    return until if until > time.time() else None


def _grace(server: Optional[Identity], before: Judgement) -> float:
    """FIRST from when it was asked, or has worked on others' after that; 0 where it has told more than silence."""
    unknown = before.verdict is Verdict.UNKNOWN
    return max(before.at, progress.busy_until(_log(server))) + FIRST if unknown else 0.0


def _log(server: Optional[Identity]) -> list[str]:
    path = processes.output_file(server.pid) if server is not None else None
    try:
        return log.last_lines(path) if path else []
    except OSError:
        return []


def _of_silence(server: Optional[Identity], before: Optional[Judgement], waited: float) -> Verdict:
    compiles = waited < FIRST if before is None else time.time() < _grace(server, before)
    return Verdict.UNKNOWN if compiles else Verdict.BAD
