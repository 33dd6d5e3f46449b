"""Tiny models of other families with random weights: `python tiny_models.py FOLDER NAME…`, run by the engine's Python.

The same numbers every time, rounded to bfloat16, so that a float32 server computes with them exactly.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

COMMON = {
    "torch_dtype": "bfloat16",
    "vocab_size": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "hidden_size": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "intermediate_size": 256,
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
    folder.mkdir(parents=True)
    text = json.dumps(config, indent=1)
    (folder / "config.json").write_text(text)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            weight.copy_(1 + 0.1 * noise if "norm" in name else 0.08 * noise)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "config.json").write_text(text)  # save_pretrained rewrites it in a spelling that SGLang does not read


if __name__ == "__main__":
    for name in sys.argv[2:]:
        write(Path(sys.argv[1]) / name, {**COMMON, **MODELS[name]})
