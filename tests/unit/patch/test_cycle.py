"""The whole way on real environments: check, plan, apply, check, revert, and what disturbs it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.patch import files, operations, package
from remote.wire.errors import ChangedSincePlan, PatchError, Refused
from remote.wire.patch import PatchState
from remote.wire.plan import StepResult
from tests.unit.patch.conftest import Bench, model_file

Make = Callable[..., Bench]


def _quiet(step: StepResult) -> None: ...


def test_the_installed_dumper_says_the_digest_of_the_plan(bench: Make) -> None:
    env = bench()
    env.apply()
    code = f"import identity; print(identity.digest_of(identity.own_files({str(env.dumper)!r})))"
    said = subprocess.run([env.target.python, "-c", code], cwd=env.dumper, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == package.shipped_digest()
    assert not list(env.dumper.rglob("*.new"))


def test_x01_permissions_and_links_are_kept(bench: Make, tmp_path: Path) -> None:
    env = bench()
    real = tmp_path / "elsewhere.py"
    env.model.rename(real)
    env.model.symlink_to(real)
    real.chmod(0o444)
    raw = real.read_bytes()
    assert env.apply().ok
    assert env.model.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o444
    assert real.read_bytes() != raw
    assert env.status().model_file == str(real)
    assert env.revert().ok
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (raw, 0o444)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_x01_the_owner_is_kept(bench: Make) -> None:
    env = bench()
    os.chown(env.model, 12345, 54321)
    env.apply()
    assert (env.model.stat().st_uid, env.model.stat().st_gid) == (12345, 54321)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_x01_another_users_file_is_refused_before_anything_changes(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = bench()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PatchError, match="belongs to user 0"):
        operations.plan_apply(env.target)
    assert not env.dumper.exists()


def test_x02_changed_between_plan_and_run_is_refused(bench: Make) -> None:
    env = bench()
    plan = operations.plan_apply(env.target)
    edited = env.model.read_bytes() + b"# edited\n"
    env.model.write_bytes(edited)
    with pytest.raises(ChangedSincePlan, match="file_sha256"):
        operations.apply(env.target, plan.basis, _quiet)
    assert env.model.read_bytes() == edited
    assert not env.dumper.exists()


def test_x02_changed_in_the_last_moment_is_refused(bench: Make, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    with pytest.raises(ChangedSincePlan):
        files.replace(str(path), b"ours", files.sha256(b"before"))
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"theirs")]


FOREIGN = (
    b"import json as _json_hs\nimport os as _os_hs\n"
    b'_HS_DUMP_DIR = _os_hs.environ.get("SGLANG_HS_DUMP_DIR", "")\n_HS_DUMP_LAYERS = [3, 31, 59]\n'
)


def _with_foreign_lines(raw: bytes) -> bytes:
    return raw.replace(b"import torch\n", b"import torch\n" + FOREIGN, 1)


def test_x03_the_forerunners_patch_is_shown_and_left_alone(bench: Make) -> None:
    raw = model_file("0.5.9")
    env = bench("0.5.9", raw)
    env.model.write_bytes(_with_foreign_lines(raw))
    seen = env.status()
    assert seen.state is PatchState.FOREIGN
    texts = env.model.read_text().splitlines()
    assert [line.text for line in seen.lines] == FOREIGN.decode().splitlines()
    assert all(texts[line.number - 1] == line.text for line in seen.lines)
    with pytest.raises(Refused, match="_json_hs"):
        operations.plan_apply(env.target)
    with pytest.raises(Refused, match="cannot be proven") as refusal:
        operations.plan_revert(env.target)
    assert "sglang==0.5.9" in refusal.value.remedy


def test_x03_revert_is_offered_where_the_original_is_kept(bench: Make) -> None:
    env = bench("0.5.9")
    raw = env.model.read_bytes()
    env.apply()
    env.revert()
    env.model.write_bytes(_with_foreign_lines(raw))
    plan = operations.plan_revert(env.target)
    assert plan.needed
    assert plan.losses
    assert operations.revert(env.target, plan.basis, _quiet).ok
    assert env.model.read_bytes() == raw


def test_x03_revert_is_offered_where_git_has_the_original(bench: Make) -> None:
    env = bench("0.5.9")
    raw = env.model.read_bytes()
    (next(env.site.glob("sglang-*.dist-info")) / "RECORD").unlink()  # a checkout has none
    git = ["git", "-C", str(env.site), "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q"], ["add", "sglang"], ["commit", "-qm", "sglang"]):
        subprocess.run([*git, *words], check=True)
    env.model.write_bytes(_with_foreign_lines(raw))
    assert "git" in operations.plan_revert(env.target).steps[1].title
    assert env.revert().ok
    assert env.model.read_bytes() == raw


def test_x04_an_upgrade_over_the_patch_is_noticed_and_patched_again(bench: Make) -> None:
    env = bench("0.5.9")
    env.apply()
    env.install("0.5.23")
    raw = env.model.read_bytes()
    seen = env.status()
    assert seen.state is PatchState.CLEAN
    assert any("older release 0.5.9" in note for note in seen.notes)
    assert env.apply().ok
    assert env.status().original_sha256 == files.sha256(raw)
    assert env.revert().ok
    assert env.model.read_bytes() == raw


def test_x05_an_unknown_release_is_refused(bench: Make) -> None:
    env = bench("0.6.0", model_file("0.5.23").replace(b"layer = self.layers[i]", b"stage = self.layers[i]"))
    seen = env.status()
    assert seen.state is PatchState.UNKNOWN_RELEASE
    assert "self.layers" in seen.summary
    with pytest.raises(Refused, match="loop over") as refusal:
        operations.plan_apply(env.target)
    assert "0.5.21 to 0.5.23" in refusal.value.remedy
    assert not operations.plan_revert(env.target).needed


def test_x05_a_new_release_of_a_known_shape_is_patched_with_a_note(bench: Make) -> None:
    env = bench("0.5.99", model_file("0.5.23"))
    assert any("0.5.99 is not among the releases" in note for note in env.status().notes)
    assert env.apply().ok


def test_x06_the_imported_one_of_two_installs_is_the_target(bench: Make, tmp_path: Path) -> None:
    env, other = bench("0.5.9"), bench("0.5.23", name="other")
    both = dataclasses.replace(env, target=dataclasses.replace(env.target, env={"PYTHONPATH": str(other.site)}))
    seen = both.status()
    assert (seen.model_file, seen.sglang_version) == (str(other.model), "0.5.23")
    assert any(str(env.model.parents[2]) in note for note in seen.notes)
    assert both.apply().ok
    assert env.status().state is PatchState.CLEAN
    assert any(str(other.model) in note and "not what this Python imports" in note for note in env.status().notes)


def test_no_sglang_names_a_python_that_has_it(bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = bench()
    monkeypatch.setenv("HOME", str(tmp_path))
    empty = dataclasses.replace(env.target, python=sys.executable)
    seen = operations.status(empty)
    assert seen.state is PatchState.NO_SGLANG
    assert env.target.python in seen.depths[0].remedy
    with pytest.raises(PatchError, match="no module named sglang"):
        operations.plan_apply(empty)


def test_an_editable_install_that_maps_only_sglang_still_finds_the_dumper(bench: Make, tmp_path: Path) -> None:
    env = bench("0.5.9")
    checkout = tmp_path / "checkout/python"
    checkout.mkdir(parents=True)
    (env.site / "sglang").rename(checkout / "sglang")
    (env.site / "finder.py").write_text(
        "import importlib.util, sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'sglang':\n"
        f"            folder = {str(checkout / 'sglang')!r}\n"
        "            return importlib.util.spec_from_file_location(\n"
        "                name, folder + '/__init__.py', submodule_search_locations=[folder])\n"
        "sys.meta_path.append(Finder)\n"
    )
    (env.site / "editable.pth").write_text("import finder\n")
    assert env.apply().ok
    assert env.dumper.is_dir()
    assert env.status().model_file == str(checkout / "sglang/srt/models/deepseek_v2.py")
