"""How the checks of a dump come to their verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from remote.wire.plan import Check, Verdict

AGAIN = "Dump the request again."
MERGED = (
    "Another request ran in the same pass. Start the server with SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0 and with "
    "hsconsole's patch, which splits a batch by request."
)
MISSING_ROWS = "Start the server with --disable-radix-cache and --chunked-prefill-size -1, then dump again."
_TOLD = 4  # problems in one check


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a dump has to be when its request is known. since: when it was sent, seconds since the epoch."""

    ids: tuple[int, ...]
    layers: tuple[int, ...]
    rid: str
    since: float


def judge(name: str, problems: Sequence[str], fine: str, remedy: str) -> Check:
    """BAD with the problems and the remedy; OK with what is fine when there are none."""
    if not problems:
        return Check(name, Verdict.OK, fine)
    more = f"; {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
    return Check(name, Verdict.BAD, "; ".join(problems[:_TOLD]) + more, remedy)


def unknown(name: str, why: str, remedy: str = "") -> Check:
    return Check(name, Verdict.UNKNOWN, why, remedy)
