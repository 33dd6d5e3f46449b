"""What an interpreter would import as sglang, and every way it can be of no use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from remote import interpreter
from tests.living import wait_for_the_end
from tests.unit.patch.conftest import Bench, put_sglang

Make = Callable[..., Bench]


def _script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "python3"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_an_environment_with_sglang(bench: Make) -> None:
    env = bench("0.5.14")
    found = interpreter.inspect(env.target.python)
    assert (found.sglang_version, found.problem) == ("0.5.14", "")
    assert found.sglang_file == str(env.site / "sglang/__init__.py")
    assert found.version == "{}.{}.{}".format(*sys.version_info)


UNUSABLE = {
    "/nowhere/python3": "no such file",
    "/etc": "not a file",
    "/etc/passwd": "not executable",
    "python3": "not an absolute path",
    "/bin/true": "not a Python 3.8",
}


@pytest.mark.parametrize(("path", "why"), UNUSABLE.items())
def test_an_interpreter_that_is_none(path: str, why: str) -> None:
    assert why in interpreter.inspect(path).problem


def test_one_without_sglang(tmp_path: Path) -> None:
    assert "no module named sglang" in interpreter.inspect(sys.executable).problem


def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    hanging = _script(tmp_path, f"sleep 60 & echo $! >{pid_file}\nwait\n")
    for seconds in (0.5, 5.0, 30.0):  # a busy machine takes its time to begin
        monkeypatch.setattr(interpreter, "TIMEOUT", seconds)
        assert "no answer within" in interpreter.inspect(hanging).problem
        if pid_file.exists() and pid_file.read_text():
            break
    wait_for_the_end([int(pid_file.read_text())])


def test_one_that_prints_at_start_up_is_understood(bench: Make) -> None:
    env = bench()
    (env.site / "noise.pth").write_text("import sys; print('{\"file\": 1}'); print('\\xff\\x00', file=sys.stderr)\n")
    assert interpreter.inspect(env.target.python).sglang_version == "0.5.23"


def test_one_that_fails_says_its_last_words(tmp_path: Path) -> None:
    failing = _script(tmp_path, "echo 'error while loading shared libraries' >&2; exit 127\n")
    assert "loading shared libraries" in interpreter.inspect(failing).problem


def test_a_checkout_on_pythonpath_wins_and_says_its_own_version(bench: Make, tmp_path: Path) -> None:
    env = bench("0.5.9")
    put_sglang(tmp_path / "checkout", "0.5.99", {})
    seen = interpreter.environment(env.target.python, {"PYTHONPATH": str(tmp_path / "checkout")})
    assert seen.interpreter.sglang_version == "0.5.99"
    assert seen.interpreter.sglang_file == str(tmp_path / "checkout/sglang/__init__.py")
    assert seen.others == (str(env.site / "sglang"),)


def test_an_editable_install_has_the_version_of_its_distribution(bench: Make, tmp_path: Path) -> None:
    env = bench("0.5.9")
    put_sglang(tmp_path / "sglang/python", "0.0.0", {})
    subprocess.run(["rm", "-r", str(env.site / "sglang")], check=True)
    (env.site / "sglang.pth").write_text(str(tmp_path / "sglang/python"))
    info = env.site / "sglang-0.5.9.dist-info"
    (info / "direct_url.json").write_text(
        f'{{"dir_info": {{"editable": true}}, "url": "file://{tmp_path}/sglang/python"}}'
    )
    found = interpreter.inspect(env.target.python)
    assert found.sglang_version == "0.5.9"
    assert found.sglang_file == str(tmp_path / "sglang/python/sglang/__init__.py")


def test_a_folder_that_only_looks_like_sglang_is_no_sglang(tmp_path: Path, bench: Make) -> None:
    (tmp_path / "checkout/sglang/docs").mkdir(parents=True)
    seen = interpreter.inspect(sys.executable, {"PYTHONPATH": str(tmp_path / "checkout")})
    assert "only a folder without __init__.py" in seen.problem


def test_the_usual_places_are_searched(bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = bench("0.5.20", name="ml-env")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert env.target.python in interpreter.candidates()
    assert ("0.5.20", env.target.python) in [(one.sglang_version, one.path) for one in interpreter.with_sglang()]


def test_a_python_that_others_could_have_planted_is_not_run(tmp_path: Path) -> None:
    """Any process may claim to be SGLang's: argv is its own word."""
    planted = tmp_path / "env/bin/python3"
    planted.parent.mkdir(parents=True)
    planted.symlink_to(sys.executable)
    assert interpreter._trusted(str(planted))
    for folder in (planted.parent, planted.parent.parent):  # pyvenv.cfg is looked for in both
        folder.chmod(0o777)
        assert not interpreter._trusted(str(planted))
        folder.chmod(0o755)
    if os.geteuid() == 0:
        os.lchown(planted, 12345, 12345)
        assert not interpreter._trusted(str(planted)), "a link of another's to a Python of root's"
