"""Output that can't be written, whatever the command: an error of its own, and no word at the end of Python."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

from console.cli import main, output
from console.cli.guard import OutputLost
from console.errors import ConfigError
from remote.wire.plan import Check, Outcome, StepResult, Verdict
from tests.unit.security.test_read_only import commands

FULL = Path("/dev/full")
LOST = OutputLost.exit_code
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
PATHS = sorted(commands(main.root))


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HSCONSOLE_CONFIG_DIR", "HSCONSOLE_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def run(*arguments: str) -> int:
    """With a standard output that is full, and closed at the end like that of a program."""
    with FULL.open("w") as stdout, contextlib.redirect_stdout(stdout):
        return main.run(list(arguments))


def takes_json(path: tuple[str, ...]) -> bool:
    command: click.Command | None = main.root
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    return command is not None and any("--json" in parameter.opts for parameter in command.params)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert "can't be written" in err
    assert "No space left on device" in err
    assert "Traceback" not in err
    assert "{" not in err, "a document belongs on stdout"
    return err


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_help_of_every_command(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*path, "--help") == LOST
    assert told(capsys)


WITH_JSON = [path for path in PATHS if takes_json(path)]


@pytest.mark.parametrize("path", WITH_JSON, ids=" ".join)
def test_what_every_command_says_as_json(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A profile that is not there, or a document that is: both go to stdout."""
    assert run("--profile", "nobody", *path, "--json", "--nonsense") == LOST
    assert told(capsys)
    if path not in (("demo",), ("init",)):
        assert run("--profile", "nobody", *path, "--json") == LOST
        assert told(capsys)


def test_most_commands_have_json() -> None:
    assert len(WITH_JSON) > 15


def test_the_text_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("profiles") == LOST
    assert "may have been done" in told(capsys)


def test_a_step_that_can_t_be_written_ends_no_action(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(*_: object, **__: object) -> None:
        raise OutputLost("full")

    monkeypatch.setattr(click, "echo", echo)
    steps, on_step = output.steps_told(as_json=False)
    on_step(StepResult("Stop it", ok=True))
    assert [step.title for step in steps] == ["Stop it"]
    with pytest.raises(OutputLost):
        output.print_outcome(Outcome("server.stop", True, "Stopped.", (Check("port", Verdict.OK, "free"),)))


def test_another_file_that_can_t_be_written_is_still_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: list[str]) -> None:
        raise OSError(28, "No space left on device", "/somewhere/else")

    monkeypatch.setattr("console.config.load.names", lambda: fail([]))
    assert run("profiles") == 70
    assert "/somewhere/else" in capsys.readouterr().err


def ran(arguments: str, redirect: str, unbuffered: str) -> subprocess.CompletedProcess[str]:
    command = f"PYTHONUNBUFFERED={unbuffered} exec {sys.executable} -m console {arguments} {redirect}"
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "redirect", "status"),
    [
        ("--version", ">/dev/full", LOST),
        ("profiles --json", ">/dev/full", LOST),
        ("status --json", ">/dev/full", LOST),
        ("profiles", ">&-", 0),
        ("status", "2>/dev/full", 3),
        ("status --json", ">/dev/full 2>/dev/full", LOST),
    ],
)
def test_the_whole_program(arguments: str, redirect: str, status: int) -> None:
    done = ran(arguments, redirect, "1" if "--json" in arguments else "")
    assert done.returncode == status, done
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_who_has_read_enough_is_no_fault() -> None:
    command = f"( {sys.executable} -m console --help; echo $? >&2 ) | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.strip() == "0"


def test_who_has_read_enough_is_told_how_it_ended_all_the_same() -> None:
    command = f"( {sys.executable} -m console --profile nobody status --json; echo $? >&2 ) | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.strip() == str(ConfigError.exit_code)
