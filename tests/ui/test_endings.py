"""What ends the screen from outside: signals, at any moment, give the terminal back as it was."""

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

import pytest

from console.config.profile import Container, Dump, Profile, Server
from console.config.write import render

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"  # the alternate screen
PATIENCE = 20.0  # seconds; the machine may be busy
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
