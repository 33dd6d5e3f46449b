"""A demo that was killed leaves its sshd: the next ends exactly that one, and tells an ended process from a running."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.demo import leftovers
from console.demo.engine import Engine
from console.demo.profile import profile
from console.demo.sshd import Sshd

OBEYS = "import signal; print(flush=True); signal.pause()"
IGNORES_TERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def nowhere(tmp_path: Path) -> Sshd:
    return Sshd(0, 1, "root", tmp_path / "key", tmp_path / "known_hosts", tmp_path / "config")


@pytest.fixture(params=[OBEYS, IGNORES_TERM], ids=["obeys", "ignores TERM"])
def left(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """What stays of an sshd whose parent reaps no child: after its end a zombie with the same pid and start."""
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def heal(tmp_path: Path, sshd: Sshd, pid: int, ticks: int) -> None:
    """`tmp_path` has no engine, so nothing but the sshd is to be put back."""
    record = leftovers.Record(profile=profile(Engine(tmp_path), sshd), sshd_pid=pid, sshd_start_ticks=ticks)
    path = tmp_path / "record.json"
    path.write_bytes(msgspec.json.encode(record))
    leftovers.heal(path, sshd, lambda title, detail: None)
    assert not path.exists()


def test_the_sshd_is_ended_and_seen_to_be(
    tmp_path: Path, nowhere: Sshd, left: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "ENDS_IN", 0.5)
    ticks = leftovers.start_ticks(left.pid)
    assert ticks is not None
    heal(tmp_path, nowhere, left.pid, ticks)
    assert Path(f"/proc/{left.pid}").exists(), "nobody has waited for it"
    assert leftovers.start_ticks(left.pid) is None


def test_a_later_process_with_its_pid_is_left_alone(tmp_path: Path, nowhere: Sshd, left: subprocess.Popen[str]) -> None:
    ticks = leftovers.start_ticks(left.pid)
    assert ticks is not None
    heal(tmp_path, nowhere, left.pid, ticks - 1)
    assert leftovers.start_ticks(left.pid) == ticks
