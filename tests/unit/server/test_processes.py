"""Processes: who is who, who is SGLang, and that nobody else is signalled."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from remote import processes
from remote.processes import Identity, Process
from remote.server import recover
from remote.server.suspects import Suspect
from remote.wire.errors import ChangedSincePlan
from tests.living import PATIENCE
from tests.unit.server.conftest import until

NAP = [sys.executable, "-c", "import time; time.sleep(60)"]


def a_process(*argv: str) -> Process:
    return Process(1, 1, 0, 1, 1, "S", 1, 0, "x", argv)


@pytest.mark.parametrize(
    "argv",
    [
        ("/venv/bin/python3", "-m", "sglang.launch_server", "--port", "8000"),
        ("python3.11", "-u", "-X", "faulthandler", "-m", "sglang.launch_server"),
        ("python", "-Bum", "sglang.launch_server"),
        ("python", "-msglang.launch_server"),
        ("python", "/opt/sglang/python/sglang/launch_server.py"),
        ("/venv/bin/python", "/venv/bin/sglang", "serve", "--model-path", "/m"),
        ("sglang", "serve"),
        ("python", "-m", "sglang.cli.main", "serve"),
        ("sglang::scheduler_TP0",),
        ("sglang::detokenizer", "", ""),
    ],
)
def test_sglang_is_recognised(argv: tuple[str, ...]) -> None:
    assert processes.is_sglang(a_process(*argv))


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("grep", "sglang.launch_server"),
        ("grep", "-r", "sglang::scheduler"),
        ("vim", "/opt/sglang/launch_server.py"),
        ("bash", "-c", "python -m sglang.launch_server --port 8000"),
        ("tail", "-f", "sglang::log"),
        ("python", "-c", "print('-m sglang.launch_server')", "-m", "sglang.launch_server"),
        ("python", "-m", "pytest", "sglang.launch_server"),
        ("python", "script.py", "-m", "sglang.launch_server"),
        ("python", "-m", "sglang.bench_serving"),
        ("sglang", "generate"),
        ("python", "-m", "sglang.cli.main", "generate"),
        ("python", "-m"),
    ],
)
def test_text_alone_is_not_sglang(argv: tuple[str, ...]) -> None:
    assert not processes.is_sglang(a_process(*argv))


def test_a_process_is_read_with_its_age_user_and_command() -> None:
    with subprocess.Popen([*NAP, "--api-key", "hunter2"]) as child:
        try:
            process = processes.read(child.pid)
            assert process is not None
            assert process.parent == os.getpid()
            assert 0 <= process.age < 30
            info = processes.info(process, ours=True, why="test")
            assert (info.pid, info.ours, info.user) == (child.pid, True, processes.user(os.getpid()))
            assert "hunter2" not in info.command
            assert abs(info.started - time.time()) < 30
        finally:
            child.kill()


def test_a_name_with_parentheses_and_spaces_is_read() -> None:
    script = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) R (b c', 0, 0, 0); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = processes.read(child.pid)
        child.kill()
    assert process is not None
    assert (process.name, process.parent) == ("a) R (b c", os.getpid())


def test_a_process_of_another_start_time_is_not_signalled() -> None:
    with subprocess.Popen(NAP) as child:
        process = processes.read(child.pid)
        assert process is not None
        other = Identity(child.pid, process.start_ticks - 1)  # the same pid, another process
        assert processes.alive(other) is None
        assert not processes.send(other, signal.SIGKILL)
        assert child.poll() is None
        assert processes.send(process.identity, signal.SIGKILL)
        assert child.wait(PATIENCE) == -signal.SIGKILL
    assert not processes.send(process.identity, signal.SIGKILL)


def test_a_python_without_pidfds_signals_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen(NAP) as child:
        process = processes.read(child.pid)
        assert process is not None
        assert processes.send(process.identity, signal.SIGKILL)
        assert child.wait(PATIENCE) == -signal.SIGKILL


def test_a_zombie_is_gone_and_a_vanished_process_is_none() -> None:
    child = subprocess.Popen(NAP)
    process = processes.read(child.pid)
    assert process is not None
    child.kill()
    until(lambda: (now := processes.read(child.pid)) is not None and now.state == "Z")
    zombie = processes.read(child.pid)
    assert zombie is not None
    assert zombie.gone
    assert processes.alive(process.identity) is None
    child.wait()
    assert processes.read(child.pid) is None
    assert processes.user(child.pid) == ""
    assert processes.environ(child.pid) == {}


def test_descendants_are_found_parents_first() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    with subprocess.Popen([sys.executable, "-c", script]) as child:
        until(lambda: len(processes.descendants(child.pid, processes.table())) == 1)
        family = processes.descendants(os.getpid(), processes.table())
        grandchild = processes.descendants(child.pid, processes.table())[0]
        pids = [process.pid for process in family]
        assert pids.index(child.pid) < pids.index(grandchild.pid)
        now = processes.table()
        other = Identity(child.pid, now[child.pid].start_ticks - 1)  # the same pid, another process
        assert processes.family([now[child.pid].identity], now) == {now[child.pid].identity, grandchild.identity}
        assert processes.family([other], now) == {other}
        processes.send(grandchild.identity, signal.SIGKILL)
        child.wait(PATIENCE)


def test_whoever_took_the_pid_of_one_that_was_shown_is_news_to_a_recovery() -> None:
    own = processes.read(os.getpid())
    assert own is not None
    stranger = Suspect(own, ours=False, why="took the pid of an orphan")
    with pytest.raises(ChangedSincePlan, match=f"did not show: pid {own.pid} "):
        recover._agree({Identity(own.pid, own.start_ticks - 1)}, (stranger,))
    assert own.identity in recover._agree({own.identity}, (stranger,))
    ended = dataclasses.replace(own, start_ticks=own.start_ticks - 1)
    recover._agree(set(), (dataclasses.replace(stranger, process=ended),))


def test_flag_values() -> None:
    process = a_process("python", "-m", "sglang.launch_server", "--port", "1", "--port=2", "--host")
    assert processes.flag_value(process, "--port") == "2"
    assert processes.flag_value(process, "--host") is None
    assert processes.flag_value(process, "--api-key") is None
