"""The tiny model with faults and a tokenizer: `python odd_model.py MODEL FOLDER`, run by the engine's Python.

The state of token `NOT_A_NUMBER` is NaN, and each row of lm_head is the next one's. Words of the tokenizer: t2 … t511.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

NOT_A_NUMBER = 1  # which ordinary prompts do not hold
BOS, EOS, UNKNOWN = "t0", "t1", "t2"


def spoil(weights: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(weights)
    tensors["model.embed_tokens.weight"][NOT_A_NUMBER] = float("nan")
    tensors["lm_head.weight"] = torch.roll(tensors["lm_head.weight"], 1, 0).contiguous()
    save_file(tensors, weights, {"format": "pt"})


def add_tokenizer(folder: Path) -> None:
    """One that puts a BOS in front, as many do."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({f"t{number}": number for number in range(512)}, unk_token=UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    made.save(str(folder / "tokenizer.json"))
    said = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "unk_token": UNKNOWN,
        "model_max_length": 16384,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(said))


if __name__ == "__main__":
    there = Path(sys.argv[2])
    shutil.copytree(sys.argv[1], there)
    for path in there.glob("*.safetensors"):
        spoil(path)
    add_tokenizer(there)
