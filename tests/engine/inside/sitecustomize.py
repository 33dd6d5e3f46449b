"""Put first on a test server's PYTHONPATH. HS_TEST, comma-separated, says what it changes:

kernels   have the stand-in for compiled kernels hold a part that older releases import
dispatch  send DeepSeek's attention down the absorbed path, on releases that know no plugins yet
idle      give torch_native attention what the idle batches of data-parallel attention ask it for
defer     have every layer but the last leave its all-reduce to the next one, as fused kernels on GPUs have it
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any


def _dispatch(module: Any) -> None:
    method = module.AttnForwardMethod.MLA

    def absorbed(self: Any, _batch: Any) -> Any:
        self.current_attention_backend = "torch_native"
        return method

    module.DeepseekV2AttentionMLA.dispatch_attn_forward_method = absorbed


def _idle(module: Any) -> None:
    module.TorchNativeAttnBackend.get_cpu_graph_seq_len_fill_value = lambda self: 1


def _defer(module: Any) -> None:
    def always(self: Any, _batch: Any) -> bool:
        return not self.is_last_layer

    module.LayerCommunicator.should_fuse_mlp_allreduce_with_next_layer = always


def _complete(module: Any) -> None:
    """The fused kernel's stand-in: sum over the ranks, then the norm."""

    def forward(self: Any, x: Any, residual: Any, *_: Any, **__: Any) -> Any:
        from sglang.srt.distributed import tensor_model_parallel_all_reduce

        return self.forward(tensor_model_parallel_all_reduce(x), residual)

    module.RMSNorm.forward_with_allreduce_fusion = forward


def _submodule(module: Any) -> None:
    """Releases up to 0.5.12 import this part of the kernels without need."""
    sys.modules["sgl_kernel.kvcacheio"] = module


_CHANGES: dict[str, dict[str, Callable[[Any], None]]] = {
    "kernels": {"sgl_kernel": _submodule},
    "dispatch": {"sglang.srt.models.deepseek_v2": _dispatch},
    "idle": {"sglang.srt.layers.attention.torch_native_backend": _idle},
    "defer": {"sglang.srt.layers.communicator": _defer, "sglang.srt.layers.layernorm": _complete},
}


class _Finder:
    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(self, name: str, *_: Any) -> Any:
        change = self._changes.pop(name, None)
        if change is None:
            return None
        spec: Any = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def run_changed(module: Any) -> None:
            run(module)
            change(module)

        spec.loader.exec_module = run_changed
        return spec


_wanted = [part for part in os.environ.get("HS_TEST", "").split(",") if part]
sys.meta_path.insert(0, _Finder({name: act for part in _wanted for name, act in _CHANGES[part].items()}))
