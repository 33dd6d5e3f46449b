"""What the demo says when it can't be set up, and that a broken-off or doubled build ends in one whole engine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from console.demo import engine as engine_module
from console.demo import leftovers, pip, sshd, tour
from console.demo.engine import Engine, build
from console.demo.progress import Progress, Reporter
from console.errors import DemoError

Install = Callable[[Engine, Reporter], None]


def quiet(progress: Progress) -> None:
    """Progress that nobody reads."""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def small_build(monkeypatch: pytest.MonkeyPatch) -> Callable[[Install], None]:
    """A build whose packages are what the test says, and whose model is empty: seconds, not minutes."""

    def use(install: Install) -> None:
        monkeypatch.setattr(engine_module, "_install", install)
        monkeypatch.setattr(engine_module, "_run", lambda command, remedy: None)

    return use


def test_no_room_is_found_before_anything_is_built(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(empty_cache)._replace(free=1_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    with pytest.raises(DemoError, match=r"1\.0 GB free, the engine needs 3 GB") as raised:
        build(quiet)
    assert "XDG_CACHE_HOME" in raised.value.remedy


@pytest.mark.parametrize("above", ["a file", "/proc/nothing"])
def test_a_cache_folder_that_can_not_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: str
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / above))
    with pytest.raises(DemoError, match="can't be made or written to") as raised:
        build(quiet)
    assert "XDG_CACHE_HOME" in raised.value.remedy


def test_a_cache_folder_of_somebody_else_is_told(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # root may write anywhere
    with pytest.raises(DemoError, match="can't be made or written to: Permission denied"):
        build(quiet)


def test_missing_system_packages_are_named_to_one_who_is_not_root(tmp_path: Path) -> None:
    programs = {"id": "echo 1001", "python3": "exit 1", "apt-get": "exit 1", "sudo": "exit 1"}
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    script = Path(__file__).parents[1] / "system-packages.sh"
    told = subprocess.run(
        ["/bin/sh", str(script)], env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=20, check=False
    )
    assert told.returncode == 1
    assert "python3-venv" in told.stderr
    assert "as root: apt-get install" in told.stderr


def test_a_broken_off_build_is_begun_again(
    empty_cache: Path, small_build: Callable[[Install], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(made: Engine, report: Reporter) -> None:
        made.folder.mkdir(parents=True)
        (made.folder / "half").touch()
        raise KeyboardInterrupt

    small_build(broken_off)
    with pytest.raises(KeyboardInterrupt):
        build(quiet)
    said: list[Progress] = []
    small_build(lambda made, report: made.folder.mkdir(parents=True))
    made = build(said.append)
    assert made.complete
    assert not (made.folder / "half").exists()
    assert said[0].stage == "removing a half-built engine"


def test_two_builds_at_once_become_one(empty_cache: Path, small_build: Callable[[Install], None]) -> None:
    builds: list[Engine] = []
    first_is_in, go_on = threading.Event(), threading.Event()

    def slow(made: Engine, report: Reporter) -> None:
        builds.append(made)
        made.folder.mkdir(parents=True)
        first_is_in.set()
        go_on.wait(20)

    small_build(slow)
    first = threading.Thread(target=build, args=(quiet,))
    first.start()
    assert first_is_in.wait(20)
    said: list[str] = []

    def note(progress: Progress) -> None:
        said.append(progress.stage)
        go_on.set()

    made = build(note)
    first.join()
    assert made.complete
    assert len(builds) == 1
    assert said == ["waiting for the engine"]


def test_pip_without_network_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(DemoError, match="pip ended with status 1") as raised:
        pip.install(Path(sys.executable), ["--target", str(tmp_path), "hsconsole-no-such-package"], lambda line: None)
    assert "check the network" in raised.value.remedy


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk space"),
        ("ERROR: No matching distribution found for torch==2.13.0", "Python 3.11 to 3.13"),
        ("something else", "Start again"),
    ],
)
def test_pip_s_end_is_told_in_words(tmp_path: Path, printed: str, advice: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho 'Collecting torch'\necho '{printed}'\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(DemoError) as raised:
        pip.install(python, ["torch"], lambda line: None)
    assert printed in raised.value.what
    assert advice in raised.value.remedy


def test_an_index_that_does_not_answer_is_told_while_pip_tries_again(tmp_path: Path) -> None:
    made = Engine(tmp_path)
    (tmp_path / "venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    made.python.parent.mkdir()
    made.python.write_text("#!/bin/sh\necho 'Collecting torch'\necho 'WARNING: Retrying (Retry(total=4)) after x'\n")
    made.python.chmod(0o755)
    said: list[Progress] = []
    engine_module._install(made, Reporter(said.append))
    assert any("1 of" in told.detail and "an index doesn't answer" in told.detail for told in said)


@pytest.mark.parametrize("found", [None, "/usr/bin/hsconsole"])
def test_the_hint_s_command_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: found)
    monkeypatch.setattr(sys, "argv", ["/clone/with room/.venv/bin/hsconsole", "demo"])
    typed = "hsconsole" if found else "'/clone/with room/.venv/bin/hsconsole'"
    assert tour.command(tmp_path) == f"HSCONSOLE_CONFIG_DIR={tmp_path} {typed} status"


def test_the_hint_s_command_is_short_below_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".cache" / "with room"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "clone/.venv/bin/hsconsole"), "demo"])
    monkeypatch.setattr(shutil, "which", lambda program: None)
    typed = tour.command(folder)
    assert typed == "HSCONSOLE_CONFIG_DIR=~/'.cache/with room' ~/clone/.venv/bin/hsconsole status"
    told = subprocess.run(
        ["sh", "-c", typed.replace("~/clone/.venv/bin/hsconsole status", "printenv HSCONSOLE_CONFIG_DIR")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == str(folder)


def test_no_sshd_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, path=None: None)
    with pytest.raises(DemoError, match="there is no sshd") as raised, sshd.serve(tmp_path, {}):
        pass
    assert "apt-get install openssh-server" in raised.value.remedy


def test_sshd_that_does_not_start_shows_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        monkeypatch.setattr(sshd, "free_port", lambda: holder.getsockname()[1])
        with pytest.raises(DemoError, match="Address already in use"), sshd.serve(tmp_path, {}):
            pass


def test_sshd_sets_the_environment_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    with sshd.serve(folder, {"XDG_STATE_HOME": "/there/it is"}) as served:
        command = ["ssh", "-F", str(served.config), sshd.ALIAS, "printenv XDG_STATE_HOME"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.stdout == "/there/it is\n", done.stderr
    assert leftovers.start_ticks(served.pid) is None


def test_a_record_that_can_not_be_read_is_not_thrown_away(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_text("{")
    with sshd.serve(tmp_path / "ssh", {}) as served, pytest.raises(DemoError, match="is no record of a demo"):
        leftovers.heal(record, served, lambda stage, detail: None)
    assert record.exists()
