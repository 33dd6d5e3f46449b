"""The command line as a program sees it: one JSON document, an exit status, never a traceback."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from console.cli.main import COMMANDS, root
from console.config import write
from console.config.profile import Profile
from tests.link.sshd import Sshd

HSCONSOLE = [sys.executable, "-m", "console"]


@pytest.fixture
def env(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose only profile leads to the sshd of the test."""
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("HSCONSOLE_PROFILE", raising=False)
    write.write(profile)
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


def run(env: dict[str, str], *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HSCONSOLE, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **{"stdin": subprocess.DEVNULL, **more},
    )


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = (*path, name)
        found += leaves(command, below) if isinstance(command, click.Group) else [(below, command)]
    return found


def test_the_lists_of_commands_cut_no_sentence() -> None:
    groups = [(), *((name,) for name in COMMANDS)]
    for path in groups:
        told = CliRunner().invoke(root, [*path, "--help"], terminal_width=80).output
        assert "Usage:" in told, path
        assert not [line for line in told.splitlines() if line.endswith("...") and not line.startswith("Usage:")], path


def test_every_command_is_there_and_speaks_json() -> None:
    commands = {" ".join(path): command for path, command in leaves(root)}
    assert set(COMMANDS) == {name.split()[0] for name in commands}
    wanted = ["status", "doctor", "init", "profiles", "demo"]
    wanted += [f"patch {verb}" for verb in ("check", "diff", "apply", "revert")]
    wanted += [f"server {verb}" for verb in ("preflight", "start", "stop", "logs")]
    wanted += [f"dumps {verb}" for verb in ("list", "show", "test")]
    for name in wanted:
        assert any(f"{command} ".startswith(f"{name} ") for command in commands), name
    for name, command in commands.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name
        if name.startswith("patch ") or name in ("server start", "server stop", "init"):
            assert "--dry-run" in options, name


FAULTS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no such command": (("nonsense",), 2, "usage"),
    "no such option": (("status", "--nonsense"), 2, "usage"),
    "a number that is none": (("dumps", "show", "x"), 2, "usage"),
    "no such profile": (("--profile", "none", "status"), 3, "config"),
    "no dumps": (("dumps", "show", "7"), 8, "dumps"),
    "nobody to confirm": (("server", "start"), 5, "refused"),
}


@pytest.mark.parametrize(("arguments", "status", "id_"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_one_document_or_a_few_lines(
    env: dict[str, str], arguments: tuple[str, ...], status: int, id_: str
) -> None:
    done = run(env, *arguments, "--json")
    assert json.loads(done.stdout)["error"]["id"].startswith(id_)
    assert (done.returncode, done.stderr) == (status, "")
    plain = run(env, *arguments)
    assert (plain.returncode, plain.stdout) == (status, "")
    assert plain.stderr
    assert "Traceback" not in plain.stderr


ANSWERS = ("status", "profiles", "server state", "server logs", "server preflight", "dumps list", "patch check")


def test_answers_are_one_document(env: dict[str, str]) -> None:
    for command in ANSWERS:
        done = run(env, *command.split(), "--json")
        json.loads(done.stdout)
        assert (done.returncode in (0, 1), done.stderr) == (True, ""), command


def test_a_dead_host_is_a_fault_of_the_link(env: dict[str, str], sshd: Sshd) -> None:
    sshd.stop()
    done = run(env, "status", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["id"]) == (4, "link")


def test_a_reader_that_leaves_is_no_fault(env: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [*HSCONSOLE, "profiles"], env=env, stdout=pipe, stderr=subprocess.PIPE, timeout=30, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_borne(env: dict[str, str], closed: str) -> None:
    for command in ("profiles", ""):
        script = f'exec "$@" {command} {closed}'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *HSCONSOLE], env=env, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == (0 if command else 2), done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_ends_it_in_order(env: dict[str, str], as_json: bool, tmp_path: Path) -> None:
    command = [*HSCONSOLE, "server", "logs", "--follow", *(["--json"] if as_json else [])]
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # whoever runs the tests in the background has interrupts ignored, and so would the child
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "log" in first
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    if as_json:
        assert json.loads(out.splitlines()[-1])["error"]["id"] == "interrupted", "one document a line"
    else:
        assert "Interrupted" in err
    assert "Traceback" not in err
