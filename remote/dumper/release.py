"""What differs between SGLang releases, asked so that 0.4.6 to 0.5.23 answer."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Optional

# where an option that is in effect can be read, newest release first; each is tried until one knows it
_OPTION_SOURCES: tuple[tuple[str, str], ...] = (
    ("sglang.srt.runtime_context", "get_schedule"),
    ("sglang.srt.runtime_context", "get_exec"),
    ("sglang.srt.runtime_context", "get_parallel"),
    ("sglang.srt.runtime_context", "get_memory"),
    ("sglang.srt.runtime_context", "get_spec"),
    ("sglang.srt.runtime_context", "get_model"),
    ("sglang.srt.runtime_context", "get_serving"),
    ("sglang.srt.runtime_context", "get_disagg"),
    ("sglang.srt.runtime_context", "get_server_args"),
    ("sglang.srt.server_args", "get_global_server_args"),
)
MISSING = object()


def version() -> str:
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("sglang.version").__version__)
    return "unknown"


def tp_rank_and_size() -> tuple[int, int]:
    """Of the tensor-parallel group of this process. Raises when the release does not tell."""
    state = sys.modules["sglang.srt.distributed.parallel_state"]
    return state.get_tensor_model_parallel_rank(), state.get_tensor_model_parallel_world_size()


def ranks_are_known() -> bool:
    """Whether this process belongs to a tensor-parallel group: it has, or will have, a model."""
    state = sys.modules.get("sglang.srt.distributed.parallel_state")
    return getattr(state, "_TP", None) is not None


def attention_rank() -> int:
    """Of this process among those that share the tokens of its replica, which with data-parallel attention is a part
    of the tensor-parallel group."""
    rank = _of_attention("rank")
    return tp_rank_and_size()[0] if rank is None else rank


def attention_size() -> int:
    """How many processes share the tokens of this one's requests."""
    size = _of_attention("size")
    return tp_rank_and_size()[1] if size is None else size


def _of_attention(what: str) -> Optional[int]:
    """`rank` or `size`; None before there was such a group."""
    with contextlib.suppress(Exception):  # before 0.5.23 it is not there, or may not know
        return int(getattr(sys.modules["sglang.srt.runtime_context"].get_parallel(), f"attn_tp_{what}"))
    with contextlib.suppress(Exception):
        return int(getattr(sys.modules["sglang.srt.layers.dp_attention"], f"get_attention_tp_{what}")())
    return None


def pp_rank_and_size(model: Any) -> tuple[int, int]:
    """This process's pipeline stage and how many there are; releases without stages have one."""
    group = getattr(model, "pp_group", None)
    return getattr(group, "rank_in_group", 0), getattr(group, "world_size", 1)


def hidden_size(model: Any) -> Optional[int]:
    """Columns of the states, None when the model does not tell (0.5.9 and older keep no config in it)."""
    weight = getattr(getattr(model, "norm", None), "weight", None)
    if weight is not None:
        return int(weight.shape[0])
    return getattr(getattr(model, "config", None), "hidden_size", None)


def option(name: str) -> Any:
    """A server argument as it is in effect, MISSING when this release has none of that name."""
    for module, getter in _OPTION_SOURCES:
        get = _attribute(module, getter)
        if get is None:
            continue
        value = MISSING
        with contextlib.suppress(Exception):  # a getter may be retired, or not published yet: ask the next source
            value = _held(get(), name)
        if value is not MISSING:
            return value
    arguments = _attribute("sglang.srt.managers.schedule_batch", "global_server_args_dict")
    return arguments.get(name, MISSING) if isinstance(arguments, dict) else MISSING


def _held(place: Any, name: str) -> Any:
    """What `place` has by this name, or one of the parts in which 0.5.23 keeps what is in effect: the arguments as they
    were given say nothing of what SGLang made of them."""
    parts = (place, *getattr(place, "_subs", {}).values())
    return next((value for part in parts for value in [getattr(part, name, MISSING)] if value is not MISSING), MISSING)


def _attribute(module: str, name: str) -> Optional[Any]:
    """Of a module that the server imported by itself: one that it did not, holds nothing that is in effect."""
    return getattr(sys.modules.get(module), name, None)
