"""What ends the screen: signals from outside and faults of its own, at any moment, give the terminal back as it was."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.config.profile import Container, Dump, Profile, Server
from console.config.write import render
from tests.living import PATIENCE

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"  # the alternate screen
UNREACHABLE = Profile(
    name="far",
    container=Container(host="127.0.0.1", python="/usr/bin/python3", port=1),
    server=Server(model_path="/m"),
    dump=Dump(),
)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def read_until(descriptor: int, wanted: bytes, seen: bytes = b"") -> bytes:
    deadline = time.monotonic() + PATIENCE
    while wanted not in seen:
        assert time.monotonic() < deadline, f"no {wanted!r} after {seen[-200:]!r}"
        if select.select([descriptor], [], [], 0.1)[0]:
            seen += os.read(descriptor, 65536)
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(number: signal.Signals, terminal: tuple[int, int], tmp_path: Path) -> None:
    ours, theirs = terminal
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "far.toml").write_text(render(UNREACHABLE))
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [sys.executable, "-m", "console"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "HSCONSOLE_CONFIG_DIR": str(tmp_path), "TERM": "xterm"},
    )
    try:
        seen = read_until(ours, b"refused", read_until(ours, ENTERED))
        assert termios.tcgetattr(theirs) != before
        process.send_signal(number)
        read_until(ours, LEFT, seen)
        assert process.wait(PATIENCE) == 128 + number
    finally:
        process.kill()
        process.wait()
    assert termios.tcgetattr(theirs) == before


FAULTY = """
import sys
from console.cli import main
from console.tui import app

def fail(self, *_):
    profile = self.profile  # a local, which a traceback could show
    raise ValueError(f"no good: {profile.server}")

setattr(app.HsConsoleApp, sys.argv[1], fail)
sys.exit(main.run([]))
"""


@pytest.mark.parametrize("where", ["_open_link", "on_mount"])
def test_a_fault_of_the_screen_is_told_in_a_line_without_secrets(
    where: str, terminal: tuple[int, int], tmp_path: Path
) -> None:
    ours, theirs = terminal
    server = Server(model_path="/m", flags=("--api-key=sk-live-0001",), env={"HF_TOKEN": "hf_0003secret"})
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "far.toml").write_text(render(msgspec.structs.replace(UNREACHABLE, server=server)))
    before = termios.tcgetattr(theirs)
    places = dict.fromkeys(("HSCONSOLE_CONFIG_DIR", "HOME", "XDG_STATE_HOME"), str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", FAULTY, where],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **places, "TERM": "xterm"},
    )
    try:
        seen = read_until(ours, b"please report", read_until(ours, b"hsconsole itself failed"))
        assert process.wait(PATIENCE) == 70
    finally:
        process.kill()
        process.wait()
    assert termios.tcgetattr(theirs) == before
    (report,) = tmp_path.rglob("crash-*.txt")
    for told in (seen, report.read_bytes()):
        assert b"no good" in told
        assert not [secret for secret in (b"sk-live-0001", b"hf_0003secret") if secret in told]
    assert b"Traceback" not in seen
    assert b"in fail" in report.read_bytes()
