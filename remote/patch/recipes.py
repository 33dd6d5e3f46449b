"""What the model files look like in each family of releases, and what the residual stream is there.

A family is told by its shape, not by the release's number.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Optional


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A model file of SGLang. path: below the sglang package. model_class: the class that runs the layers.

    base: where the class inherits its `forward` from, in releases where it has none of its own.
    """

    model: str
    path: str
    model_class: str
    base: Optional[ModelFile] = None


DEEPSEEK = ModelFile("deepseek", "srt/models/deepseek_v2.py", "DeepseekV2Model")
LLAMA = ModelFile("llama", "srt/models/llama.py", "LlamaModel")
QWEN2 = ModelFile("qwen2", "srt/models/qwen2.py", "Qwen2Model")
QWEN3 = ModelFile("qwen3", "srt/models/qwen3.py", "Qwen3Model", base=QWEN2)
QWEN2_MOE = ModelFile("qwen2-moe", "srt/models/qwen2_moe.py", "Qwen2MoeModel")
QWEN3_MOE = ModelFile("qwen3-moe", "srt/models/qwen3_moe.py", "Qwen3MoeModel", base=QWEN2_MOE)
MODEL_FILES = (DEEPSEEK, LLAMA, QWEN2, QWEN3, QWEN2_MOE, QWEN3_MOE)

# By the architecture that a model's config.json names. Kimi K2.5 wraps a DeepSeek-V3.
ARCHITECTURES = {
    "DeepseekV2ForCausalLM": DEEPSEEK,
    "DeepseekV3ForCausalLM": DEEPSEEK,
    "DeepseekV32ForCausalLM": DEEPSEEK,
    "KimiK25ForConditionalGeneration": DEEPSEEK,
    "LlamaForCausalLM": LLAMA,
    "Qwen2ForCausalLM": QWEN2,
    "Qwen2MoeForCausalLM": QWEN2_MOE,
    "Qwen3ForCausalLM": QWEN3,
    "Qwen3MoeForCausalLM": QWEN3_MOE,
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """layer_results: the names that the call of a layer in the loop assigns. needs: a name that `before` uses.

    before: the residual stream before a layer, an expression. The dumper copies its value at once: layers reuse theirs.
    """

    layer_results: tuple[str, ...]
    needs: str
    before: str


# the sum of both, completed across ranks where a layer deferred that
_SUM = "_hs_dump.stream(hidden_states, residual)"
# The layers hand over sums that are still to be completed across ranks; only a snapshot completes them.
_SNAPSHOT = "residual_batch.snapshot(hidden_states, forward_batch)"

PAIR = Shape(("hidden_states", "residual"), "residual", _SUM)
PAIR_TOPK = Shape(("hidden_states", "residual", "topk_indices"), "residual", _SUM)
STREAM = Shape(("hidden_states",), "residual_batch", _SNAPSHOT)
STREAM_TOPK = Shape(("hidden_states", "topk_indices"), "residual_batch", _SNAPSHOT)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One family of releases of one model file. first, last: the releases this shape was seen in."""

    file: ModelFile
    first: str
    last: str
    shape: Shape

    @property
    def name(self) -> str:
        return f"{self.file.model} {self.first}-{self.last}"

    def seen_in(self, release: Optional[str]) -> bool:
        return release is not None and _order(self.first) <= _order(release) <= _order(self.last)


RECIPES = (
    Recipe(DEEPSEEK, "0.4.6", "0.5.9", PAIR),
    Recipe(DEEPSEEK, "0.5.10", "0.5.20", PAIR_TOPK),
    Recipe(DEEPSEEK, "0.5.21", "0.5.23", STREAM_TOPK),
    Recipe(LLAMA, "0.4.6", "0.5.21", PAIR),
    Recipe(LLAMA, "0.5.22", "0.5.23", STREAM),
    Recipe(QWEN2, "0.4.6", "0.5.21", PAIR),
    Recipe(QWEN2, "0.5.22", "0.5.23", STREAM),
    Recipe(QWEN3, "0.5.21", "0.5.23", STREAM),
    Recipe(QWEN2_MOE, "0.4.6", "0.5.20", PAIR),
    Recipe(QWEN2_MOE, "0.5.21", "0.5.23", STREAM),
)


# Data-parallel attention: seen right in real servers, every tensor against another implementation. The dumper has the
# same rule of its own, in remote/dumper/attention.py.
ATTENTION_MODEL = DEEPSEEK
ATTENTION_FIRST, ATTENTION_LAST = "0.5.20", "0.5.23"


def attention_seen_right(file: Optional[ModelFile], release: Optional[str]) -> bool:
    first, last = _order(ATTENTION_FIRST), _order(ATTENTION_LAST)
    return file == ATTENTION_MODEL and first <= _order(release or "") <= last


def recipes_of(file: ModelFile) -> tuple[Recipe, ...]:
    return tuple(recipe for recipe in RECIPES if recipe.file == file)


def known_releases(file: ModelFile) -> str:
    return ", ".join(f"{recipe.first} to {recipe.last}" for recipe in recipes_of(file)) or "none"


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release)[:3])
