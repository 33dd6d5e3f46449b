"""What a model file looks like in each family of releases, and what the residual stream is there.

A family is told by its shape, not by the release's number. Recipes for other models join RECIPES.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Optional

DEEPSEEK = "srt/models/deepseek_v2.py"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One family of releases of one model file.

    file: below the sglang package. first, last: the releases this shape was seen in.
    layer_results: the names that the call of a layer in the loop assigns. needs: a name that `before` uses.
    before: the residual stream before a layer, an expression. The dumper copies its value at once: layers reuse theirs.
    """

    model: str
    first: str
    last: str
    file: str
    model_class: str
    layer_results: tuple[str, ...]
    needs: str
    before: str

    @property
    def name(self) -> str:
        return f"{self.model} {self.first}-{self.last}"

    def seen_in(self, release: Optional[str]) -> bool:
        return release is not None and _order(self.first) <= _order(release)[:3] <= _order(self.last)


_SUM = "hidden_states if residual is None else hidden_states + residual"
# The layers of 0.5.21 hand over sums that are still to be completed across ranks; only a snapshot completes them.
_SNAPSHOT = "residual_batch.snapshot(hidden_states, forward_batch)"

RECIPES = (
    Recipe("deepseek", "0.4.6", "0.5.9", DEEPSEEK, "DeepseekV2Model", ("hidden_states", "residual"), "residual", _SUM),
    Recipe(
        model="deepseek",
        first="0.5.10",
        last="0.5.20",
        file=DEEPSEEK,
        model_class="DeepseekV2Model",
        layer_results=("hidden_states", "residual", "topk_indices"),
        needs="residual",
        before=_SUM,
    ),
    Recipe(
        model="deepseek",
        first="0.5.21",
        last="0.5.23",
        file=DEEPSEEK,
        model_class="DeepseekV2Model",
        layer_results=("hidden_states", "topk_indices"),
        needs="residual_batch",
        before=_SNAPSHOT,
    ),
)


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release)[:3])


def known_releases() -> str:
    return ", ".join(f"{recipe.first} to {recipe.last}" for recipe in RECIPES)
