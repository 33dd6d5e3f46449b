"""The residual stream where a layer left its all-reduce to the next one (releases up to 0.5.20 mark such sums)."""

from __future__ import annotations

import sys
from typing import Any

from . import log

_OWED = "_sglang_needs_allreduce_fusion"


def stream(hidden_states: Any, residual: Any) -> Any:
    """`hidden_states + residual`, completed across the ranks where the layer before deferred that.

    A collective then: every rank of the group has to call it. The tensors themselves stay as they are.
    """
    if getattr(hidden_states, _OWED, False):
        log.once("layers leave their all-reduce to the next one (fused): the dumper completes what it captures")
        hidden_states = _group_sum()(hidden_states.clone())
    return hidden_states if residual is None else hidden_states + residual


def _group_sum() -> Any:
    """What the next layer would do: SGLang's all-reduce of the MoE's group, that of all ranks in older releases."""
    distributed = sys.modules["sglang.srt.distributed"]
    name = "moe_tensor_model_parallel_all_reduce"
    return getattr(distributed, name, None) or distributed.tensor_model_parallel_all_reduce
