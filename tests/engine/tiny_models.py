"""Tiny models of other families with random weights: `python tiny_models.py FOLDER NAME…`, run by the engine's Python.

The same numbers every time, rounded to bfloat16, so that a float32 server computes with them exactly.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from console.demo import model

SHARED = (
    "torch_dtype", "vocab_size", "bos_token_id", "eos_token_id", "tie_word_embeddings", "hidden_size", "hidden_act",
    "rms_norm_eps", "num_hidden_layers", "num_attention_heads", "attention_bias", "attention_dropout", "rope_theta",
    "intermediate_size",
)  # fmt: skip
COMMON = {
    **{key: model.CONFIG[key] for key in SHARED},
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 2048,
}
EXPERTS = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],  # SGLang takes every layer of Qwen3-MoE for sparse
    "norm_topk_prob": True,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **EXPERTS},
}


def write(folder: Path, config: dict[str, Any]) -> None:
    with mock.patch.object(model, "CONFIG", config):
        model.write(folder)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        write(Path(sys.argv[1]) / name, {**COMMON, **MODELS[name]})
