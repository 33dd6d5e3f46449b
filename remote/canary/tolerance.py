"""How far two computations of the same numbers may be apart, and where the figures come from (docs/trust.md)."""

from __future__ import annotations

import dataclasses

# Unit roundoff: the largest relative error of rounding one number to the type, 2⁻ᵖ with p bits of significand.
ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Of rows computed twice. row: relative error, |x - y| / |x|. share: of rows that may be beyond, where a mixture of
    experts turns a rounding into another expert. farthest: what no row may be beyond; that is a row of something else.
    """

    row: float
    share: float
    farthest: float

    def beyond(self, rows: int) -> int:
        """How many of `rows` rows may be beyond: one at least where any may, since short prompts turn too."""
        return max(1, int(self.share * rows)) if self.share else 0


# Measured on SGLang's CPU backend, worst of rows computed in passes of other lengths: see docs/trust.md.
_ROUNDOFFS_OF_A_ROW = {"bfloat16": 32.0, "float16": 32.0, "float32": 64.0}
_SHARE_OF_FLIPS = 0.1
_FARTHEST_FLIP = 1.0

# The same for the difference of two logits, in roundoffs of their own size.
ROUNDOFFS_OF_A_LOGIT = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}

# What was measured, as docs/trust.md has it.
_WORST_ROW, _PARTIAL_SUMS, _WORST_LOGIT = "6", "40 %", "42 %"
_MEASURED = "seen with SGLang 0.5.23 on a CPU and 0.5.14 on an H200"


def of_rows(dtype: str) -> Tolerance:
    """KeyError for a dtype that no dump has."""
    row = _ROUNDOFFS_OF_A_ROW[dtype] * ROUNDOFF[dtype]
    return Tolerance(row, 0.0, row) if dtype == "float32" else Tolerance(row, _SHARE_OF_FLIPS, _FARTHEST_FLIP)


def told(dtype: str) -> str:
    """The tolerances of a dump's dtype, and what they were calibrated by, in a sentence."""
    allowed = of_rows(dtype)
    share = f" for all but {allowed.share:.0%} of rows" if allowed.share else ""
    row, logit = _ROUNDOFFS_OF_A_ROW[dtype], ROUNDOFFS_OF_A_LOGIT[dtype]
    return (
        f"{dtype} rows within {allowed.row:.2g}{share}: {row:.0f} roundoffs, of which right servers "
        f"were seen to use up to {_WORST_ROW}, and partial sums are {_PARTIAL_SUMS} off; logprobs within "
        f"{logit:.0f} roundoffs of their logits, of which up to {_WORST_LOGIT} were used; {_MEASURED}"
    )
