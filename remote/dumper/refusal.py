"""What the dumper can't do right, and therefore does not do: for a whole server, for a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from .problem import Problem
from .release import MISSING, option, pp_rank_and_size

QUIET_MODES = frozenset({"DECODE", "IDLE", "DUMMY_FIRST", "PREBUILT"})  # nothing is prefilled in these


def of_server(model: Any, layers: Sequence[int]) -> Optional[Problem]:
    """Why no request of this server can be dumped; asked once, when the model first runs. Alike on every rank."""
    there = len(model.layers)
    beyond = [layer for layer in layers if layer >= there]
    if beyond:
        detail = f"this model has layers 0 to {there - 1}; SGLANG_HS_DUMP_LAYERS asks for {beyond}"
        return Problem("the model has no such layer", detail)
    if pp_rank_and_size(model)[1] > 1:
        return Problem(
            "pipeline parallelism can not be dumped", "each stage has only its own layers. Start without --pp-size"
        )
    context = option("attn_cp_size")
    if context is not MISSING and context > 1:
        return Problem("context parallelism can not be dumped", "each rank has only some tokens of a prompt")
    return None


def of_pass(batch: Any) -> Optional[Problem]:
    """Why no request of this pass can be dumped. Alike on every rank."""
    if getattr(batch, "can_run_tbo", False):
        detail = "it leaves the layer loop early. Start without --enable-two-batch-overlap"
        return Problem("two-batch overlap can not be dumped", detail)
    if getattr(batch, "global_num_tokens_cpu", None) is not None:
        detail = "each rank has only some tokens. Start without --enable-dp-attention and without --moe-a2a-backend"
        return Problem("data-parallel attention can not be dumped", detail)
    return None


def of_mode(mode: str) -> str:
    """What to say about a pass that is neither plain prefill nor quiet."""
    remedy = {
        "MIXED": "Start without --enable-mixed-chunk",
        "TARGET_VERIFY": "Start without --speculative-algorithm",
        "DRAFT_EXTEND": "Start without --speculative-algorithm",
        "DRAFT_EXTEND_V2": "Start without --speculative-algorithm",
        "SPLIT_PREFILL": "Start without --enable-pdmux",
    }.get(mode, "")
    return f"REFUSED: {mode} passes can not be dumped, their requests get no dump. {remedy}".rstrip()
