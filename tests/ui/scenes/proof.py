"""What a canary and a verification find."""

from __future__ import annotations

import dataclasses

from remote.canary import tolerance
from remote.wire.dumps import Canary, Level, Verified, VerifyProgress, VerifyResult, VerifySummary
from remote.wire.plan import Check, StepResult, Verdict
from remote.wire.server import Judgement
from tests.ui.scenes.basics import BAD, NOW, OK, UNKNOWN, WARN

ROWS_AGAIN = "the first 41 rows are those of the shorter prompt: worst 3.6e-07, tolerance 3.8e-06"
CANARY_CHECKS = (
    Check("prompt", OK, "req_1287: 96 tokens, 15 checks well"),
    Check("another prompt", OK, "req_1288: 64 tokens, 15 checks well"),
    Check("the same again", OK, "req_1289: 96 tokens, 15 checks well"),
    Check("its beginning", OK, "req_1290: 41 tokens, 15 checks well"),
    Check("final against logprobs", OK, "96 rows, 384 pairs of logprobs: worst 0.42 × the tolerance"),
    Check("order of layers", OK, "cosine to the end rises: aux_0 0.312, aux_1 0.538, aux_2 0.871"),
    Check("prefix", OK, ROWS_AGAIN),
    Check("repeat", OK, "the same prompt gives the same rows: worst 0, tolerance 3.8e-06"),
    Check("ranks", OK, "8 ranks agree: worst 0, tolerance 3.8e-06"),
    Check("log against dumps", OK, "log: 4 requests, 297 tokens; dumps: 4, 297"),
)
CANARY_STEPS = tuple(StepResult(check.name, True, check.found, 0.4) for check in CANARY_CHECKS)
CANARY_WELL = Canary(OK, 3.4, (1287, 1288, 1289, 1290), CANARY_CHECKS, tolerances=tolerance.told("float32"))
JUDGED_WELL = Judgement(OK, NOW)


def judged(verdict: Verdict, name: str, found: str, remedy: str = "") -> Canary:
    """The canary with one of its checks found otherwise."""
    checks = tuple(Check(name, verdict, found, remedy) if check.name == name else check for check in CANARY_CHECKS)
    return dataclasses.replace(CANARY_WELL, verdict=verdict, checks=checks)


CANARY_FAULTY = judged(
    BAD,
    "final against logprobs",
    "96 of 96 rows do not give the server's logprobs, the first is row 0; worst 1.7e+05 × the tolerance",
    "`final` is not what lm_head took, or not of these rows: check that it is captured behind the final norm.",
)
CANARY_UNKNOWN = judged(UNKNOWN, "final against logprobs", "the weights are random (--load-format dummy), in no file")
CANARY_CANCELLED = Canary(
    UNKNOWN,
    1.1,
    (1287,),
    (
        CANARY_CHECKS[0],
        Check("cancelled", UNKNOWN, "ended by the operator after 1 of 4 requests", "Run it again: it says nothing."),
    ),
    stopped=True,
)

NAN = Check("finite", BAD, "aux_2.pt: NaN in row 7", "Check the weights, the dtype and the rope settings.")
MB_47 = 47_000_000


def verified(number: int, verdict: Verified = Verified.OK, *checks: Check) -> VerifyResult:
    return VerifyResult(number, verdict, Level.CONTENT, checks, MB_47)


ODD = {
    31: verified(31, Verified.WARN, Check("norms", WARN, "aux_0: the longest row is 9.1 spreads off")),
    404: verified(404, Verified.BAD, NAN),
    405: verified(405, Verified.UNVERIFIED, Check("finite", UNKNOWN, "final.pt can't be read")),
    700: verified(700, Verified.ERROR, Check("dump", BAD, "no room in /dev/shm: 470 MB wanted, 61 MB left")),
    1282: verified(1282, Verified.BAD, NAN, Check("norms", BAD, "aux_2: the median is 41 spreads off")),
}


def progress(done: int, total: int, first: int = 1) -> VerifyProgress:
    """Requests `first` to `done` of `total`, with the odd ones among them."""
    return VerifyProgress(tuple(ODD.get(n) or verified(n) for n in range(first, done + 1)), done, total)


def summed(*verdicts: tuple[Verified, int], stopped: bool = False) -> VerifySummary:
    """A summary of as many of each verdict."""
    counts = {verdict.value: many for verdict, many in verdicts}
    ok = not stopped and set(counts) <= {"ok"}
    many = sum(counts.values())
    return VerifySummary(Level.CONTENT, ok, counts, many * MB_47, many / 300, "64 dumps, of this folder", stopped)


NOT_ALL_WELL = summed(
    (Verified.OK, 1281), (Verified.BAD, 2), (Verified.WARN, 1), (Verified.UNVERIFIED, 1), (Verified.ERROR, 1)
)
