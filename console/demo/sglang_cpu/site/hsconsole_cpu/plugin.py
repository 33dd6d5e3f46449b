"""A general plugin of SGLang (entry point group sglang.srt.plugins), run in each of its processes."""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Send DeepSeek's attention down the absorbed path for prefill too.

    The torch_native backend reads keys and values from the latent cache, which only that path fills.
    """
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.models.deepseek_v2.DeepseekV2AttentionMLA.dispatch_attn_forward_method",
        _absorbed,
        HookType.REPLACE,
    )


def _absorbed(self: Any, _forward_batch: Any) -> Any:
    from sglang.srt.models.deepseek_common.attention_forward_methods.forward_methods import AttnForwardMethod

    self.current_attention_backend = "torch_native"
    return AttnForwardMethod.MLA
