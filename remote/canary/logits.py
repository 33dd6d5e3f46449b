"""h·(w_a - w_b) = logprob_a - logprob_b: the dumped `final` against the server's own top logprobs, every row of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

from . import head
from .head import Head, NoHead
from .states import States
from .tolerance import ROUNDOFF, ROUNDOFFS_OF_A_LOGIT

NAME = "final against logprobs"
TOP = 5
_REMEDY = (
    "`final` is not what lm_head took, or not of these rows: check that it is captured behind the final norm, and that "
    "the server runs the weights in the profile's model_path."
)


class Top(NamedTuple):
    """What the server says of the position of `row`: (token, logprob), the likeliest first."""

    row: int
    tokens: Sequence[tuple[int, float]]


def tops(info: dict[str, Any], rows: int) -> Optional[list[Top]]:
    """Out of an answer's meta_info; None when it lacks a position.

    The list for row p is in place p + 1; the last row's is the first of the output.
    """
    given = info.get("input_top_logprobs"), info.get("output_top_logprobs")
    if not all(isinstance(one, list) for one in given):
        return None
    lists = [*given[0][1:], *given[1][:1]]  # type: ignore[index]
    found = [Top(row, _pairs(one)) for row, one in enumerate(lists)]
    return found if len(found) == rows and all(len(top.tokens) > 1 for top in found) else None


def of_model(numpy: Any, target: Target, states: States, said: Optional[Sequence[Top]], spare: int = 0) -> Check:
    """`check` against the weights of the target's model, UNKNOWN where they can't be read."""
    words = " ".join(target.flags).replace("=", " ").split()
    if ("--load-format", "dummy") in zip(words, words[1:]):
        return Check(NAME, Verdict.UNKNOWN, "the weights are random (--load-format dummy), in no file")
    try:
        return check(numpy, states, said, head.find(target.model_path), spare)
    except NoHead as problem:
        return Check(NAME, Verdict.UNKNOWN, str(problem))


def check(numpy: Any, states: States, said: Optional[Sequence[Top]], matrix: Head, spare: int) -> Check:
    """Every pair of the likeliest token with each of the others, at every position. Raises NoHead.

    spare: rows that may be beyond the tolerance, when `said` is of another pass than `states`.
    """
    final = states.tensors["final.pt"].astype("f8")
    if said is None:
        return Check(NAME, Verdict.UNKNOWN, "the server gave no top logprobs for every position")
    if matrix.hidden != final.shape[1]:
        return Check(NAME, Verdict.BAD, f"{matrix.name} has {matrix.hidden} columns, final {final.shape[1]}", _REMEDY)
    if len(final) != len(said):
        return Check(NAME, Verdict.BAD, f"{len(final)} rows of final for {len(said)} positions", _REMEDY)
    weights = matrix.rows(numpy, sorted({token for top in said for token, _ in top.tokens}))
    worst, count, wrong = 0.0, 0, []
    for top in said:
        ratio = max(_ratios(final[top.row], top, weights, states.dtype))
        count += len(top.tokens) - 1
        worst = max(worst, ratio)
        if ratio > 1:
            wrong.append(top.row)
    if len(wrong) > spare:
        found = f"{len(wrong)} of {len(said)} rows do not give the server's logprobs, the first is row {wrong[0]}"
        return Check(NAME, Verdict.BAD, f"{found}; worst {worst:.3g} × the tolerance", _REMEDY)
    turned = f", in {len(wrong)} of the {spare} rows that another expert may turn" if wrong else ""
    found = f"{len(said)} rows, {count} pairs of logprobs: worst {worst:.2g} × the tolerance{turned}"
    return Check(NAME, Verdict.OK, found)


def _ratios(state: Any, top: Top, weights: dict[int, Any], dtype: str) -> list[float]:
    """Error ÷ tolerance of each pair. The server rounds a logit to `dtype`, its own, and sums in float32 at least."""
    of_rounding = ROUNDOFFS_OF_A_LOGIT[dtype] * ROUNDOFF[dtype]
    of_a_sum = ROUNDOFFS_OF_A_LOGIT["float32"] * ROUNDOFF["float32"]
    logits = {token: float(state @ weights[token]) for token, _ in top.tokens}
    sizes = {token: float(abs(state) @ abs(weights[token])) for token, _ in top.tokens}
    (best, best_logprob), *others = top.tokens
    found = []
    for token, logprob in others:
        error = abs((logits[best] - logits[token]) - (best_logprob - logprob))
        rounded = of_rounding * (abs(logits[best]) + abs(logits[token]))
        summed = of_a_sum * (sizes[best] + sizes[token] + abs(best_logprob) + abs(logprob))
        ratio = error / (rounded + summed)
        found.append(ratio if ratio == ratio else math.inf)
    return found


def _pairs(value: Any) -> list[tuple[int, float]]:
    """[[logprob, token, text], …] of one position; nothing when it is something else."""
    try:
        return [(int(token), float(logprob)) for logprob, token, *_ in value]
    except (TypeError, ValueError):
        return []
