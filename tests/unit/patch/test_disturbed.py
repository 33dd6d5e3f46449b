"""What comes between two steps of the patch: lost records, edits, an end midway, a second operator, stale code."""

from __future__ import annotations

import errno
import importlib.util
import os
import py_compile
import subprocess
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.patch import files, operations, package, seam
from remote.patch.recipes import DEEPSEEK
from remote.wire.errors import PatchError, Refused
from remote.wire.patch import PatchState
from remote.wire.plan import StepResult, Verdict
from tests.unit.patch.conftest import Bench

Make = Callable[..., Bench]


def _quiet(step: StepResult) -> None: ...


def test_a_lost_record_does_not_stop_a_revert(bench: Make, state: Path) -> None:
    env = bench()
    raw = env.model.read_bytes()
    (next(env.site.glob("sglang-*.dist-info")) / "RECORD").unlink()
    env.apply()
    for file in state.rglob("*.*"):
        file.unlink()
    for file in (state / "originals").iterdir():
        file.unlink()
    assert env.status().state is PatchState.APPLIED
    assert env.revert().ok
    assert env.model.read_bytes() == raw


@pytest.mark.parametrize("digest", ["A", "!" * 43, "\u00e4" * 43, "AAAA", "A" * 80], ids=ascii)
def test_a_damaged_record_is_named(bench: Make, digest: str) -> None:
    env = bench()
    record = next(env.site.glob("sglang-*.dist-info")) / "RECORD"
    record.write_text(f"sglang/{DEEPSEEK.path},sha256={digest},1\n")
    for ask in (operations.status, operations.plan_apply):
        with pytest.raises(PatchError, match=r"RECORD is damaged: .* is no SHA-256"):
            ask(env.target)


@pytest.mark.parametrize("fails", [1, 2])
def test_a_dumper_that_can_t_be_put_there_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """Whichever of the two renames is refused: SGLang goes on with a whole dumper, and no half one lies about."""
    folder = tmp_path / "hsconsole_dumper"
    folder.mkdir()
    (folder / "__init__.py").write_text("old\n")
    before, calls, rename = package.installed_digest(str(folder)), [], os.rename

    def refused(source: str, to: str) -> None:
        calls.append(to)
        if len(calls) == fails:
            raise OSError(errno.EBUSY, "Device or resource busy")
        rename(source, to)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(PatchError, match=r"cannot write .*hsconsole_dumper: Device or resource busy"):
        package.install(str(folder))
    assert package.installed_digest(str(folder)) == before
    assert [path.name for path in tmp_path.iterdir()] == ["hsconsole_dumper"]
    package.install(str(folder))
    assert package.installed_digest(str(folder)) == package.shipped_digest()
    assert [path.name for path in tmp_path.iterdir()] == ["hsconsole_dumper"]


def test_a_change_outside_the_marks_refuses_revert_and_apply(bench: Make) -> None:
    env = bench()
    env.apply()
    edited = env.model.read_bytes() + b"# edited\n"
    env.model.write_bytes(edited)
    assert env.status().state is PatchState.DRIFTED
    for plan in (operations.plan_revert, operations.plan_apply):
        with pytest.raises(Refused, match="outside of the marked lines"):
            plan(env.target)
    assert env.model.read_bytes() == edited


def test_a_change_inside_the_marks_is_healed_by_apply_and_by_revert(bench: Make) -> None:
    env = bench()
    raw = env.model.read_bytes()
    env.apply()
    applied = env.model.read_bytes()
    env.model.write_bytes(applied.replace(b"    _hs_dump.finish(hidden_states)", b"    pass"))
    assert env.status().state is PatchState.DRIFTED
    assert env.status().depths[0].verdict is Verdict.BAD
    assert env.apply().ok
    assert env.model.read_bytes() == applied
    env.model.write_bytes(applied.replace(b"    _hs_dump.finish(hidden_states)", b"    pass"))
    assert env.revert().ok
    assert env.model.read_bytes() == raw


def test_broken_marks_are_drift_and_refused(bench: Make) -> None:
    env = bench()
    env.apply()
    broken = env.model.read_bytes().replace(b"# <<< hsconsole hidden-state dump 3 <<<\n", b"", 1)
    env.model.write_bytes(broken)
    seen = env.status()
    assert seen.state is PatchState.DRIFTED
    assert "has no end" in seen.summary
    with pytest.raises(Refused, match="has no end"):
        operations.plan_revert(env.target)


def _older(bench: Bench) -> None:
    bench.model.write_bytes(bench.model.read_bytes().replace(b"dump 3 >>>", b"dump 2 >>>"))


def _other_dumper(bench: Bench) -> None:
    (bench.dumper / "more.py").write_text("")


def _no_dumper(bench: Bench) -> None:
    bench.dumper.rename(bench.site / "away")


DISTURBED: dict[str, tuple[Callable[[Bench], None], PatchState]] = {
    "marks of another version": (_older, PatchState.OUTDATED),
    "an edited dumper": (_other_dumper, PatchState.DRIFTED),
    "no dumper": (_no_dumper, PatchState.DRIFTED),
}


@pytest.mark.parametrize("case", DISTURBED)
def test_apply_heals(bench: Make, case: str) -> None:
    env = bench()
    env.apply()
    disturb, expected = DISTURBED[case]
    disturb(env)
    assert env.status().state is expected
    assert env.apply().ok
    assert env.status().state is PatchState.APPLIED


def test_a_dumper_of_another_hsconsole_is_outdated(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    env = bench()
    env.apply()
    newer = {**package.shipped(), "newer.py": b""}
    monkeypatch.setattr(package, "shipped", lambda: newer)
    assert env.status().state is PatchState.OUTDATED
    plan = operations.plan_apply(env.target)
    assert (plan.diff, plan.losses) == ("", ())
    assert operations.apply(env.target, plan.basis, _quiet).ok
    assert (env.dumper / "newer.py").exists()


def test_a_dumper_that_is_not_ours_survives_a_revert_and_is_named_before_it_is_replaced(bench: Make) -> None:
    env = bench()
    env.dumper.mkdir()
    (env.dumper / "__init__.py").write_text("theirs = True\n")
    assert any("a dumper is left" in note for note in env.status().notes)
    assert not operations.plan_revert(env.target).needed
    assert "did not write it" in operations.plan_apply(env.target).losses[0]
    env.apply()
    (env.dumper / "__init__.py").write_text("theirs = True\n")
    assert env.revert().ok
    assert (env.dumper / "__init__.py").read_text() == "theirs = True\n"


def test_cut_off_between_dumper_and_file(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    env = bench()
    raw = env.model.read_bytes()
    real = files.replace

    def fail(path: str, content: bytes, expected_sha256: str) -> None:
        raise PatchError(f"cannot replace {path}: No space left on device")

    monkeypatch.setattr(files, "replace", fail)
    steps: list[StepResult] = []
    with pytest.raises(PatchError):
        operations.apply(env.target, operations.plan_apply(env.target).basis, steps.append)
    assert [step.ok for step in steps] == [True, True, False]
    seen = env.status()
    assert (seen.state, env.model.read_bytes()) == (PatchState.CLEAN, raw)
    assert any("cut off" in note for note in seen.notes)
    assert any("a dumper is left" in note for note in seen.notes)
    monkeypatch.setattr(files, "replace", real)
    assert operations.plan_revert(env.target).needed
    assert env.apply().ok
    assert env.revert().ok
    assert not env.dumper.exists()


RACE = """
import json, sys
from remote.patch import operations
from remote.wire.errors import OperatorError
from remote.wire.target import Target
target = Target(*sys.argv[1:])
basis = operations.plan_apply(target).basis
print("ready", flush=True)
sys.stdin.readline()
try:
    print(operations.apply(target, basis, lambda step: None).ok)
except OperatorError as error:
    print(error.id)
"""


def test_two_at_once_one_wins(bench: Make) -> None:
    env = bench()
    raw = env.model.read_bytes()
    command = [sys.executable, "-c", RACE, env.target.python, env.target.model_path]
    pair: list[Any] = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [one.stdout.readline() for one in pair] == ["ready\n"] * 2
    for one in pair:
        one.stdin.write("go\n")
        one.stdin.flush()
    assert sorted(one.communicate(timeout=60)[0].strip() for one in pair) == ["True", "refused.changed"]
    assert env.model.read_bytes() == seam.weave(raw, DEEPSEEK).content
    assert (env.dumper / "__init__.py").exists()


def test_python_compiles_the_file_again_and_a_pyc_that_hides_it_is_found(bench: Make) -> None:
    env = bench()
    compiled = Path(importlib.util.cache_from_source(str(env.model)))
    py_compile.compile(str(env.model))
    old = compiled.read_bytes()[8:16]
    env.apply()
    stat = env.model.stat()
    assert old != int(stat.st_mtime).to_bytes(4, "little") + stat.st_size.to_bytes(4, "little")
    assert env.status().depths[2].verdict is Verdict.OK
    py_compile.compile(str(env.model), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert env.status().depths[2].verdict is Verdict.BAD
    assert str(compiled) in env.status().depths[2].remedy


def test_without_a_state_folder_apply_is_refused_and_status_lives(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    env = bench()
    monkeypatch.setattr("remote.statedir.candidates", lambda env: ["/proc/none"])
    assert env.status().state is PatchState.CLEAN
    with pytest.raises(Exception, match="/proc/none"):
        operations.plan_apply(env.target)


def test_the_dumper_is_read_from_a_zipapp_too(tmp_path: Path) -> None:
    root = tmp_path / "app"
    for path, content in package.shipped().items():
        (root / "remote/dumper" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "remote/dumper" / path).write_bytes(content)
    source = Path(files.__file__).parents[1]
    for file in [
        *source.glob("*.py"),
        *(file for name in ("patch", "server", "wire") for file in source.glob(f"{name}/*.py")),
    ]:
        place = root / "remote" / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    (root / "__main__.py").write_text("from remote.patch import package\nprint(package.shipped_digest())\n")
    zipapp.create_archive(root, tmp_path / "agent.pyz")
    said = subprocess.run([sys.executable, tmp_path / "agent.pyz"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == package.shipped_digest()
