"""A profile's model decides which file is patched; two patched files share one dumper."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from remote import processes
from remote.patch import choice, operations, package
from remote.patch.recipes import ARCHITECTURES, MODEL_FILES
from remote.wire.errors import ChangedSincePlan
from remote.wire.patch import PatchState
from remote.wire.plan import Check, Verdict
from tests.unit.patch.conftest import Bench

Make = Callable[..., Bench]

FILES = [
    ("0.5.9", "DeepseekV32ForCausalLM", "deepseek_v2.py"),
    ("0.5.23", "KimiK25ForConditionalGeneration", "deepseek_v2.py"),
    ("0.5.23", "LlamaForCausalLM", "llama.py"),
    ("0.5.23", "Qwen2ForCausalLM", "qwen2.py"),
    ("0.5.20", "Qwen3ForCausalLM", "qwen2.py"),
    ("0.5.21", "Qwen3ForCausalLM", "qwen3.py"),
    ("0.5.23", "Qwen2MoeForCausalLM", "qwen2_moe.py"),
    ("0.5.23", "Qwen3MoeForCausalLM", "qwen2_moe.py"),
]


@pytest.mark.parametrize(("release", "architecture", "file"), FILES)
def test_the_file_that_runs_the_layers_is_patched(bench: Make, release: str, architecture: str, file: str) -> None:
    env = bench(release).of(architecture)
    assert Path(env.status().model_file or "").name == file


def test_a_model_without_a_recipe_is_refused_and_those_that_have_one_are_named(bench: Make) -> None:
    env = bench().of("GPT2LMHeadModel")
    with pytest.raises(choice.UnknownModelError, match="is a GPT2LMHeadModel") as refusal:
        operations.plan_apply(env.target)
    assert all(name in refusal.value.remedy for name in ARCHITECTURES)
    assert refusal.value.exit_code == 5
    seen = env.status()
    assert (seen.state, "GPT2LMHeadModel" in seen.summary) == (PatchState.UNKNOWN_MODEL, True)
    assert [check.remedy for check in seen.depths] == [refusal.value.remedy, "", "", ""], "said once"


def test_a_class_that_got_a_layer_loop_of_its_own_is_refused(bench: Make) -> None:
    env = bench().of("Qwen3MoeForCausalLM")
    path = env.site / "sglang/srt/models/qwen3_moe.py"
    added = "class Qwen3MoeModel(Qwen2MoeModel):\n    def forward(self): ...\n"
    path.write_text(path.read_text().replace("class Qwen3MoeModel(Qwen2MoeModel):\n", added))
    with pytest.raises(Exception, match=r"qwen3_moe\.py has a layer loop of its own"):
        operations.plan_apply(env.target)


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "gone": lambda model: shutil.rmtree(model),
    "no config": lambda model: (model / "config.json").unlink(),
    "cut off": lambda model: (model / "config.json").write_text('{"architectures": ["Deep'),
    "no architecture": lambda model: (model / "config.json").write_text('{"model_type": "deepseek_v3"}'),
    "no list": lambda model: (model / "config.json").write_text('{"architectures": "DeepseekV3ForCausalLM"}'),
    "binary": lambda model: (model / "config.json").write_bytes(b"\xff\0\xfe"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_model_that_cannot_be_read_is_refused(bench: Make, case: str) -> None:
    env = bench()
    UNREADABLE[case](Path(env.target.model_path))
    with pytest.raises(choice.UnreadableModelError, match=r"no config\.json that can be read") as refusal:
        operations.plan_apply(env.target)
    assert "Set server.model_path" in refusal.value.remedy
    assert env.status().state is PatchState.UNKNOWN_MODEL
    assert not operations.plan_revert(env.target).needed


@pytest.mark.parametrize("architecture", ["DeepseekV3ForCausalLM", "LlamaForCausalLM"])
def test_a_patch_can_be_seen_and_taken_out_when_the_model_is_gone(bench: Make, architecture: str) -> None:
    env = bench().of(architecture)
    assert env.apply().ok
    shutil.rmtree(env.target.model_path)
    assert env.status().state is PatchState.APPLIED
    with pytest.raises(choice.UnreadableModelError):
        operations.plan_apply(env.target)
    assert env.revert().ok
    assert not env.dumper.exists()


def test_a_patch_can_be_taken_out_when_the_model_is_another_now(bench: Make) -> None:
    env = bench()
    assert env.apply().ok
    other = env.of("GPT2LMHeadModel")
    assert other.status().state is PatchState.UNKNOWN_MODEL
    assert other.revert().ok
    assert env.status().state is PatchState.CLEAN


def test_two_patched_files_share_the_dumper_and_the_revert(bench: Make) -> None:
    deepseek = bench()
    before = model_files(deepseek)
    llama = deepseek.of("LlamaForCausalLM")
    assert deepseek.apply().ok
    assert llama.status().state is PatchState.CLEAN
    assert any("deepseek_v2.py bears the patch too" in note for note in llama.status().notes)
    assert llama.apply().ok
    assert [deepseek.status().state, llama.status().state] == [PatchState.APPLIED] * 2
    plan = operations.plan_revert(llama.target)
    assert [line for line in plan.diff.splitlines() if line.startswith("--- ")] == [
        f"--- {os.path.realpath(deepseek.site / 'sglang/srt/models' / name)}" for name in ("llama.py", "deepseek_v2.py")
    ]
    assert any("deepseek_v2.py is another model's and loses the patch too" in loss for loss in plan.losses)
    outcome = llama.revert()
    assert outcome.ok
    assert [check.name for check in outcome.checks] == ["file", "text", "file", "text", "dumper", "loaded"]
    assert model_files(deepseek) == before, "byte for byte"
    assert not deepseek.dumper.exists()
    assert not operations.plan_revert(deepseek.target).needed


def model_files(env: Bench) -> dict[str, bytes]:
    return {file.path: (env.site / "sglang" / file.path).read_bytes() for file in MODEL_FILES}


@pytest.mark.parametrize("now", ["LlamaForCausalLM", "Qwen3MoeForCausalLM", "GPT2LMHeadModel"])
def test_the_file_of_the_model_before_is_found_and_reverted(bench: Make, now: str) -> None:
    before = bench()
    clean = model_files(before)
    assert before.apply().ok
    changed = before.of(now)
    assert operations.plan_revert(changed.target).needed
    assert changed.revert().ok
    assert model_files(before) == clean
    assert not before.dumper.exists()


def test_another_models_file_that_drifted_stays_with_its_dumper_and_is_named(bench: Make) -> None:
    deepseek = bench()
    llama = deepseek.of("LlamaForCausalLM")
    clean = model_files(deepseek)
    assert deepseek.apply().ok
    assert llama.apply().ok
    with deepseek.model.open("ab") as file:
        file.write(b"# a change of somebody's\n")
    drifted = deepseek.model.read_bytes()
    assert any("deepseek_v2.py stays patched" in loss for loss in operations.plan_revert(llama.target).losses)
    outcome = llama.revert()
    assert outcome.ok
    assert "deepseek_v2.py is patched too" in next(check.found for check in outcome.checks if check.name == "dumper")
    assert model_files(deepseek) == {**clean, "srt/models/deepseek_v2.py": drifted}
    assert deepseek.dumper.exists()


def test_another_models_file_that_changes_between_plan_and_revert_ends_it(bench: Make) -> None:
    deepseek = bench()
    llama = deepseek.of("LlamaForCausalLM")
    deepseek.apply()
    plan = operations.plan_revert(llama.target)
    with deepseek.model.open("ab") as file:
        file.write(b"# a change of somebody's\n")
    left = deepseek.model.read_bytes()
    with pytest.raises(ChangedSincePlan, match="others"):
        operations.revert(llama.target, plan.basis, lambda step: None)
    assert deepseek.model.read_bytes() == left


def test_a_newer_dumper_that_came_with_one_file_is_known_for_the_other(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    deepseek = bench()
    llama = deepseek.of("LlamaForCausalLM")
    deepseek.apply()
    shipped = package.shipped()
    monkeypatch.setattr(package, "shipped", lambda: {**shipped, "newer.py": b""})
    assert operations.plan_apply(llama.target).losses == ()
    assert llama.apply().ok
    monkeypatch.setattr(package, "shipped", lambda: {**shipped, "newest.py": b""})
    assert deepseek.status().state is PatchState.OUTDATED


def test_a_file_patched_between_plan_and_revert_keeps_its_dumper(bench: Make) -> None:
    deepseek = bench()
    llama = deepseek.of("LlamaForCausalLM")
    deepseek.apply()
    plan = operations.plan_revert(deepseek.target)
    llama.apply()
    with pytest.raises(ChangedSincePlan, match="also_patched"):
        operations.revert(deepseek.target, plan.basis, lambda step: None)
    assert llama.status().state is PatchState.APPLIED


def _loaded_by_another(bench: Bench, started_after: bool, **changes: str) -> Check:
    """What the check says when this process claims to have met the dumper through deepseek_v2.py first."""
    me = processes.read(os.getpid())
    assert me is not None
    folder = Path(bench.target.dump_dir) / ".loaded"
    folder.mkdir(parents=True)
    said = {
        "pid": me.pid,
        "start_ticks": me.start_ticks,
        "model_files": {str(bench.model): "0" * 64},
        "dumper_digest": package.shipped_digest(),
    }
    (folder / f"{me.pid}.json").write_text(json.dumps({**said, **changes}))
    patched = Path(bench.status().model_file or "")
    if started_after:
        os.utime(patched, (0, 0))
    return bench.status().depths[3]


@pytest.mark.parametrize(
    ("started_after", "digest", "verdict"),
    [(True, None, Verdict.OK), (False, None, Verdict.WARN), (True, "0" * 64, Verdict.WARN)],
)
def test_a_server_names_one_of_two_patched_files(
    bench: Make, started_after: bool, digest: str | None, verdict: Verdict
) -> None:
    deepseek = bench()
    llama = deepseek.of("LlamaForCausalLM")
    deepseek.apply()
    llama.apply()
    changes = {"dumper_digest": digest} if digest else {}
    assert _loaded_by_another(llama, started_after, **changes).verdict is verdict


def test_another_environments_patch_of_another_model_is_noted(bench: Make) -> None:
    one, other = bench(), bench(name="other").of("LlamaForCausalLM")
    other.apply()
    both = dataclasses.replace(one, target=dataclasses.replace(one.target, env={"PYTHONPATH": str(one.site)}))
    path = other.status().model_file
    assert any(f"{path} bears the patch too" in note for note in both.status().notes)
