"""What the dumper can't do right, and therefore does not do: for a whole server, for a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

from . import attention, release
from .problem import Problem

QUIET_MODES = frozenset({"DECODE", "IDLE", "DUMMY_FIRST", "PREBUILT"})  # nothing is prefilled in these


class _Option(NamedTuple):
    """A server argument that can't go with dumps when it is `wrong`."""

    name: str
    wrong: Callable[[Any], bool]
    problem: Problem


def _many(value: Any) -> bool:
    return isinstance(value, int) and value > 1


def _named(value: Any) -> bool:
    return value is not None and str(getattr(value, "value", value)).lower() not in ("", "none", "false")


def _not_sglangs(value: Any) -> bool:
    return _named(value) and str(getattr(value, "value", value)).lower() not in ("auto", "sglang")


def _records_prefill(config: Any) -> bool:
    backend = getattr(getattr(config, "prefill", None), "backend", None)
    return _named(backend) and str(getattr(backend, "value", backend)) != "disabled"


_ROWS = "each rank has only some tokens of a prompt"
_PIPELINE = Problem(
    "pipeline parallelism can not be dumped", "each stage has only its own layers. Start without --pp-size"
)
_CONTEXT_CAUSE = "context parallelism can not be dumped"
_CONTEXT = Problem(_CONTEXT_CAUSE, f"{_ROWS}. Start without --attn-cp-size")
_CONTEXT_PREFILL = Problem(_CONTEXT_CAUSE, f"{_ROWS}. Start without --enable-prefill-cp")
_CONTEXT_DECODE = Problem(_CONTEXT_CAUSE, "it is not known to be right. Start without --dcp-size")
_SCATTERED = Problem("scattered rows can not be dumped", f"{_ROWS}. Start without --enable-attn-tp-input-scattered")
_SEQUENCE = Problem("sequence parallelism can not be dumped", f"{_ROWS}. Start without --enable-layernorm-sp")
_ATTENTION = Problem(
    "data-parallel attention of this release or model can not be dumped",
    f"it is known to be right for DeepSeek models in SGLang {attention.FIRST} to {attention.LAST} alone. "
    "Start without --enable-dp-attention",
)
_ATTENTION_SHARED = Problem(
    "data-parallel attention whose parts have several ranks can not be dumped",
    "it is known to be right with one rank each alone. Start with --dp-size as large as --tp-size",
)
_APART = Problem("the ranks of data-parallel attention do not know of this prompt", "SGLang did not gather its length")
_GATHERED = Problem("passes that ranks share can not be dumped", f"{_ROWS}. Start without --moe-dense-tp-size")
_EXPERTS = Problem("experts that scatter tokens can not be dumped", f"{_ROWS}. Start without --moe-a2a-backend")
_EXPERTS_OLD = Problem(_EXPERTS.cause, f"{_ROWS}. Start without --enable-deepep-moe")
_OVERLAP = Problem(
    "two-batch overlap can not be dumped",
    "it leaves the layer loop early. Start without --enable-two-batch-overlap",
)
_SPECULATION = Problem(
    "speculative decoding can not be dumped", "its passes look like prompts. Start without --speculative-algorithm"
)
_MIXED = Problem(
    "mixed chunks can not be dumped", "decoded rows are in the pass of a prompt. Start without --enable-mixed-chunk"
)
_SPLIT = Problem("split prefill can not be dumped", "it does not run the layer loop. Start without --enable-pdmux")
_GRAPHS = "CUDA graphs of prefill can not be dumped"
_PIECEWISE = Problem(_GRAPHS, "no Python runs in them. Start without --enable-piecewise-cuda-graph")
_NOT_DISABLED = Problem(_GRAPHS, "no Python runs in them. Start with --disable-piecewise-cuda-graph")
_RECORDED = Problem(_GRAPHS, "no Python runs in them. Start with --cuda-graph-backend-prefill=disabled")
_CACHE = Problem("the radix cache would keep rows out of dumps", "Start with --disable-radix-cache")
_OTHER_CODE = Problem(
    "another implementation of the model runs than the one that is patched", "Start without --model-impl transformers"
)
_TRUNCATED = Problem("the server cuts long prompts without a word", "Start without --allow-auto-truncate")
_MEDIA = Problem(
    "prompts of images, other media or embeddings can not be dumped",
    "their rows have no ids of their own, and prompts of text in the same pass are not told from them. Send text alone",
)
_EMBEDDED = ("mm_input_embeds", "input_embeds", "replace_embeds")  # of a batch: what the model takes in place of ids
_OPTIONS = (
    _Option("pp_size", _many, _PIPELINE),
    _Option("enable_prefill_cp", _named, _CONTEXT_PREFILL),
    _Option("enable_prefill_context_parallel", _named, _CONTEXT_PREFILL),
    _Option("enable_dsa_prefill_context_parallel", _named, _CONTEXT_PREFILL),
    _Option("enable_nsa_prefill_context_parallel", _named, _CONTEXT_PREFILL),
    _Option("attn_cp_size", _many, _CONTEXT),  # which the ones before set too
    _Option("dcp_size", _many, _CONTEXT_DECODE),
    _Option("enable_attn_tp_input_scattered", _named, _SCATTERED),
    _Option("enable_layernorm_sp", _named, _SEQUENCE),
    _Option("moe_dense_tp_size", _named, _GATHERED),
    _Option("moe_a2a_backend", _named, _EXPERTS),
    _Option("enable_deepep_moe", _named, _EXPERTS_OLD),
    _Option("model_impl", _not_sglangs, _OTHER_CODE),
    _Option("enable_two_batch_overlap", _named, _OVERLAP),
    _Option("speculative_algorithm", _named, _SPECULATION),
    _Option("enable_mixed_chunk", _named, _MIXED),
    _Option("enable_pdmux", _named, _SPLIT),
    _Option("enable_piecewise_cuda_graph", _named, _PIECEWISE),
    _Option("disable_piecewise_cuda_graph", lambda value: value is False, _NOT_DISABLED),
    _Option("cuda_graph_config", _records_prefill, _RECORDED),
    _Option("disable_radix_cache", lambda value: value is False, _CACHE),
    _Option("allow_auto_truncate", _named, _TRUNCATED),
)


def of_options() -> Optional[Problem]:
    """Why no request of a server with these arguments can be dumped. Alike on every rank."""
    for wrong in _OPTIONS:
        value = release.option(wrong.name)
        if value is not release.MISSING and wrong.wrong(value):
            return wrong.problem
    if attention.asked() and not attention.proved(release.version(), attention.MODEL):
        return _ATTENTION
    return None


def of_model(model: Any, layers: Sequence[int]) -> Optional[Problem]:
    """Why no request of this model can be dumped; asked once, when it first runs. Alike on every rank."""
    there = len(model.layers)
    beyond = [layer for layer in layers if layer >= there]
    if beyond:
        detail = f"this model has layers 0 to {there - 1}; SGLANG_HS_DUMP_LAYERS asks for {beyond}"
        return Problem("the model has no such layer", detail)
    if release.pp_rank_and_size(model)[1] > 1:
        return _PIPELINE
    if attention.asked() and not attention.proved(release.version(), type(model).__name__):
        return _ATTENTION
    if attention.asked() and release.attention_size() > 1:
        return _ATTENTION_SHARED
    return None


def of_pass(batch: Any, shared: bool) -> Optional[Problem]:
    """Why no request of this pass can be dumped; with data-parallel attention (`shared`), of this rank."""
    if batch.forward_mode.name == "MIXED":
        return _MIXED
    if getattr(batch, "can_run_tbo", False):
        return _OVERLAP
    if _media(batch):
        return _MEDIA
    if shared and not attention.prefills_somewhere(batch):
        return _APART
    if not shared and getattr(batch, "global_num_tokens_cpu", None) is not None:
        return _GATHERED
    if not hasattr(batch, "orig_seq_lens") and _chunks():
        detail = "this release does not tell where a prompt ends. Start with --chunked-prefill-size -1"
        return Problem("prompts in chunks can not be told from whole ones", detail)
    return None


def _media(batch: Any) -> bool:
    """Whether some rows are no tokens. SGLang has then overwritten their ids with ones that look like a token's."""
    if any(getattr(batch, name, None) is not None for name in _EMBEDDED):
        return True
    return bool(getattr(batch, "contains_mm_inputs", bool)())


def _chunks() -> bool:
    size = release.option("chunked_prefill_size")
    return size is release.MISSING or (isinstance(size, int) and size > 0)


def of_mode(mode: str) -> str:
    """What to say about a pass that is neither plain prefill nor quiet."""
    remedy = {
        "TARGET_VERIFY": "Start without --speculative-algorithm",
        "DRAFT_EXTEND": "Start without --speculative-algorithm",
        "DRAFT_EXTEND_V2": "Start without --speculative-algorithm",
        "SPLIT_PREFILL": "Start without --enable-pdmux",
    }.get(mode, "")
    return f"REFUSED: {mode} passes can not be dumped, their requests get no dump. {remedy}".rstrip()
