"""SGLang from a bundle of wheels, unpacked where nothing is installed, and the model that it serves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

# Stands in for modules that SGLang imports and that this run does not use.
_STUB = """
class _Any(type):
    def __getattr__(cls, name): return cls
class _Stub(metaclass=_Any):
    def __init__(self, *args, **more): pass
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return _Stub
"""
_IMPORTS = (
    "sglang.launch_server, sglang.srt.entrypoints.http_server, sglang.srt.managers.scheduler, "
    "sglang.srt.models.deepseek_v2, sglang.srt.layers.attention.triton_backend"
)
# Kimi K2.5's shape where it matters to dumps: 61 layers, 7168 wide. Small experts, so that it fits and starts at once.
MODEL = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 2048, "moe_intermediate_size": 256, "num_hidden_layers": 61, "num_attention_heads": 64,
    "num_key_value_heads": 64, "n_shared_experts": 1, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "routed_scaling_factor": 2.5, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "qk_nope_head_dim": 128, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    "norm_topk_prob": True, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": 32000,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1,
    "attention_bias": False,
}  # fmt: skip
VOCABULARY = 32000
LAYERS = (3, 31, 59)


def unpack(bundle: Path, into: Path) -> None:
    """Unpack and make it importable. Raises RuntimeError saying what is missing."""
    if not into.exists():
        into.mkdir(parents=True)
        subprocess.run(["tar", "xJf", bundle, "-C", into], check=True)
    environment = {**os.environ, "PYTHONPATH": str(into), "HF_HUB_OFFLINE": "1"}
    for _ in range(25):
        tried = subprocess.run(
            [sys.executable, "-c", f"import {_IMPORTS}"], env=environment, capture_output=True, text=True, check=False
        )
        if tried.returncode == 0:
            return
        lines = tried.stderr.strip().splitlines() or ["no message"]
        missing = re.search(r"No module named '([\w.]+)'", lines[-1])
        place = into.joinpath(*missing[1].split(".")) if missing else into
        if missing is None or place.exists():
            break
        place.mkdir(parents=True)
        (place / "__init__.py").write_text(_STUB)
    raise RuntimeError(f"SGLang can not be imported: {tried.stderr[-2000:]}")


def write_model(folder: Path) -> None:
    """Its config; weights are random, the same at each start."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MODEL))
