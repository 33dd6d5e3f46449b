"""A tiny model that sees images, with random weights: `python vision_model.py FOLDER`, run by the engine's Python.

Its text goes through Llama's layers. Words of its tokenizer: t0 … t499, and `IMAGE` for each patch of an image.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

IMAGE = "[IMG]"
SPECIAL = {IMAGE: 500, "[IMG_BREAK]": 501, "[IMG_END]": 502, "<pad>": 503}
TEXT = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
VISION = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 64,
    "patch_size": 16,
}


def write(folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, PixtralVisionConfig

    torch.manual_seed(0)
    parts = {"text_config": LlamaConfig(**TEXT), "vision_config": PixtralVisionConfig(**VISION)}
    config = LlavaConfig(
        **parts, image_token_index=SPECIAL[IMAGE], vision_feature_layer=-1, vision_feature_select_strategy="full"
    )
    LlavaForConditionalGeneration(config).float().save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text())
    for section in (said, said["text_config"], said["vision_config"]):
        section["torch_dtype"] = "float32"  # SGLang asks for the older spelling of `dtype`
    said["image_token_index"] = SPECIAL[IMAGE]
    (folder / "config.json").write_text(json.dumps(said))
    processor().save_pretrained(folder)


def processor() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PixtralImageProcessor, PixtralProcessor, PreTrainedTokenizerFast

    words = {f"t{number}": number for number in range(500)} | SPECIAL
    made = Tokenizer(models.WordLevel(words, unk_token="t2"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(list(SPECIAL))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="t0", eos_token="t1", unk_token="t2", pad_token="<pad>"
    )
    images = PixtralImageProcessor(patch_size={"height": 16, "width": 16}, size={"longest_edge": 64})
    return PixtralProcessor(image_processor=images, tokenizer=tokenizer, patch_size=16)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
