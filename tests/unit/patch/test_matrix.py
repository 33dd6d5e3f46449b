"""Every model file in many releases: check, apply, compile, check, apply again, revert byte for byte."""

from __future__ import annotations

import json
import py_compile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.patch import files, operations
from remote.patch.recipes import ARCHITECTURES, RECIPES, ModelFile
from remote.wire.patch import PatchState
from remote.wire.plan import StepResult, Verdict
from tests.unit.patch.conftest import RELEASES, Bench

Make = Callable[..., Bench]

SHORT = {
    "DeepseekV3ForCausalLM": tuple(RELEASES),
    "LlamaForCausalLM": ("0.5.9", "0.5.21", "0.5.23"),
    "Qwen2ForCausalLM": ("0.5.20", "0.5.23"),
    "Qwen3ForCausalLM": ("0.4.6", "0.5.20", "0.5.23"),
    "Qwen3MoeForCausalLM": ("0.5.9", "0.5.20", "0.5.23"),
}
LONG = (
    *("0.4.6.post5", "0.4.7.post1", "0.4.8.post1", "0.4.10.post2", "0.5.1.post3", "0.5.3.post3", "0.5.4.post3"),
    *("0.5.6.post2", "0.5.7", "0.5.8.post1", "0.5.10", "0.5.11", "0.5.13.post1", "0.5.15.post1", "0.5.16"),
    *("0.5.18", "0.5.19", "0.5.22", *RELEASES),
)


def _cases() -> Iterator[object]:
    for architecture, short in SHORT.items():
        for release in LONG:
            yield pytest.param(architecture, release, marks=() if release in short else pytest.mark.matrix)


def _file(architecture: str, release: str) -> ModelFile:
    """By the releases: Qwen3 has a layer loop of its own since 0.5.21, Qwen3-MoE has none."""
    file = ARCHITECTURES[architecture]
    own = any(recipe.file == file and recipe.seen_in(release) for recipe in RECIPES)
    return file if own or file.base is None else file.base


@pytest.mark.parametrize(("architecture", "release"), _cases())
def test_apply_and_revert(bench: Make, architecture: str, release: str, state: Path) -> None:
    env = bench(release).of(architecture)
    file = _file(architecture, release)
    model = env.site / "sglang" / file.path
    before = {path: path.read_bytes() for path in env.site.rglob("*") if path.is_file()}
    raw = before[model]

    clean = env.status()
    assert (clean.state, clean.sglang_version, clean.model_file) == (PatchState.CLEAN, release, str(model))
    assert "the release's own file" in clean.depths[1].found

    plan = operations.plan_apply(env.target)
    assert len([line for line in plan.diff.splitlines() if line.startswith("+") and line[:3] != "+++"]) == 17
    assert json.loads(json.dumps(plan.basis)) == plan.basis
    assert model.read_bytes() == raw
    steps: list[StepResult] = []
    outcome = operations.apply(env.target, plan.basis, steps.append)
    assert outcome.ok, outcome
    assert [step.title for step in steps] == [step.title for step in plan.steps[:-1]]

    (family,) = [recipe.name for recipe in RECIPES if recipe.file == file and recipe.seen_in(release)]
    after = env.status()
    assert (after.state, after.family, after.version) == (PatchState.APPLIED, family, "3")
    assert (after.original_sha256, len(after.lines)) == (files.sha256(raw), 17)
    assert [depth.verdict for depth in after.depths] == [Verdict.OK] * 3 + [Verdict.UNKNOWN]
    assert (state / "originals" / files.sha256(raw)).read_bytes() == raw
    py_compile.compile(str(model), cfile=str(state / "compiled"), doraise=True)

    again = operations.plan_apply(env.target)
    assert (again.needed, again.steps, again.diff) == (False, (), "")
    assert operations.apply(env.target, again.basis, steps.append).ok

    assert env.revert().ok
    assert {path: path.read_bytes() for path in env.site.rglob("*") if path.is_file()} == before
    assert not operations.plan_revert(env.target).needed
