"""Data-parallel attention: each of its ranks has requests of its own, and the experts are computed by all together.

A rank's rows are then those of its own requests. What a layer owes may be a sum over all ranks (0.5.21 and later), so
when one of them captures, every other has to, whatever it runs: a prompt, decoded tokens, or nothing.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from . import release

# Seen right in real servers with as many parts as ranks, every tensor against another implementation; elsewhere it is
# refused.
FIRST, LAST = "0.5.20", "0.5.23"
MODEL = "DeepseekV2Model"


def asked() -> bool:
    """Whether the server was started with it; 0.5.23 keeps its size alone."""
    size = release.option("attn_dp_size")
    return release.option("enable_dp_attention") is True or (isinstance(size, int) and size > 1)


def proved(version: Optional[str], model: str) -> bool:
    """Whether dumps of it are known to be right. model: the class that runs the layers."""
    return model == MODEL and _order(FIRST) <= _order(version or "") <= _order(LAST)


def prefills_somewhere(batch: Any) -> bool:
    """Whether any rank prefills in this pass. SGLang gathered that: every rank gets the same answer."""
    return bool(getattr(batch, "is_extend_in_batch", False))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
