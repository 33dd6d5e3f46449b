"""Writes a tiny DeepSeek-V3 with random weights: run by the engine's Python as `python model.py FOLDER`.

A million parameters in the architecture of the real thing: MLA, a dense first layer, routed and shared experts.
The same numbers every time, rounded to bfloat16, so that a float32 server computes with them exactly.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "torch_dtype": "bfloat16",
    "vocab_size": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "tie_word_embeddings": False,
    "hidden_size": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 4,
    "num_nextn_predict_layers": 0,
    # attention
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 48,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "max_position_embeddings": 16384,
    "rope_theta": 10000.0,
    # SGLang takes the scaled rotary embedding of this family for granted
    "rope_scaling": {
        "type": "yarn",
        "factor": 32,
        "original_max_position_embeddings": 512,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 0.707,
        "mscale_all_dim": 0.707,
    },
    # experts
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
}

# wide enough that every layer changes the residual stream visibly: dumps of two layers must differ
WEIGHT_SPREAD, NORM_SPREAD, BIAS_SPREAD = 0.08, 0.1, 0.05


def write(folder: Path) -> None:
    """Write config.json and safetensors into `folder`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    config = json.dumps(CONFIG, indent=1)
    (folder / "config.json").write_text(config)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            weight.copy_(1 + NORM_SPREAD * noise if "norm" in name else WEIGHT_SPREAD * noise)
        for name, buffer in model.named_buffers():
            if "e_score_correction_bias" in name:
                buffer.copy_(BIAS_SPREAD * torch.randn_like(buffer))
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "config.json").write_text(config)  # save_pretrained rewrites it in a spelling that SGLang does not read


if __name__ == "__main__":
    write(Path(sys.argv[1]))
