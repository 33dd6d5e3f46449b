"""X07 and its kind: what live servers loaded, against what the files hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote import processes
from remote.patch import operations
from remote.wire.plan import Check, Verdict
from tests.unit.patch.conftest import Bench

Make = Callable[..., Bench]
Start = Callable[[Bench], int]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that by its command line is an SGLang server of the bench's Python. Returns its pid."""
    started: list[subprocess.Popen[bytes]] = []
    script = tmp_path / "fake/sglang/launch_server.py"
    script.parent.mkdir(parents=True)
    script.write_text("import time\nprint(flush=True)\ntime.sleep(120)\n")

    def start(bench: Bench) -> int:
        process = subprocess.Popen([bench.target.python, str(script)], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield start
    for process in started:
        with process:
            process.kill()


def _claim(bench: Bench, pid: int, **changes: Any) -> None:
    process = processes.read(pid)
    seen = bench.status()
    said = {
        "pid": pid,
        "start_ticks": process.start_ticks if process else 0,
        "dumper_version": "0.1.0",
        "dumper_digest": operations.plan_apply(bench.target).basis["dumper_digest"],
        "model_files": {"/of/another/model.py": None, seen.model_file: seen.file_sha256},
        "layers": [3, 31, 59],
    }
    folder = Path(bench.target.dump_dir) / ".loaded"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{pid}.json").write_text(json.dumps({**said, **changes}))


def _loaded(bench: Bench) -> Check:
    return bench.status().depths[3]


def test_x07_patched_while_the_server_runs(bench: Make, server: Start) -> None:
    env = bench()
    pid = server(env)
    assert _loaded(env).verdict is Verdict.OK
    time.sleep(0.05)
    assert any("when the server is started again" in note for note in operations.plan_apply(env.target).notes)
    outcome = env.apply()
    assert outcome.ok
    assert f"runs unpatched code (pid {pid})" in outcome.summary
    found = _loaded(env)
    assert (found.verdict, "Restart" in found.remedy) == (Verdict.WARN, True)


def test_a_server_that_says_it_loaded_this_is_right(bench: Make, server: Start) -> None:
    env = bench()
    env.apply()
    pid = server(env)
    assert _loaded(env).verdict is Verdict.UNKNOWN
    assert "names no dumper" in _loaded(env).found
    _claim(env, pid)
    assert _loaded(env).verdict is Verdict.OK
    assert str(pid) in _loaded(env).found


@pytest.mark.parametrize("what", ["model file", "dumper"])
def test_a_server_that_loaded_something_else_needs_a_restart(bench: Make, server: Start, what: str) -> None:
    env = bench()
    env.apply()
    other = {"dumper_digest": "0" * 64} if what == "dumper" else {"model_files": {str(env.model): "0" * 64}}
    _claim(env, server(env), **other)
    assert _loaded(env).verdict is Verdict.WARN


@pytest.mark.parametrize("patched", [False, True])
def test_a_server_of_another_sglang_that_dumps_here_is_told(bench: Make, server: Start, patched: bool) -> None:
    """Another environment, or another one on its PYTHONPATH, whatever this one's file is like."""
    env = bench()
    if patched:
        env.apply()
    elsewhere = "/elsewhere/sglang/srt/models/deepseek_v2.py"
    _claim(env, server(env), model_files={elsewhere: "0" * 64}, dumper_digest="0" * 64)
    check = _loaded(env)
    assert check.verdict is Verdict.WARN
    assert f"loaded {elsewhere}, not this file" in check.found


def test_a_server_that_can_not_dump_as_it_was_started(bench: Make, server: Start) -> None:
    env = bench()
    env.apply()
    _claim(env, server(env), problem={"cause": "pipeline parallelism can not be dumped", "detail": "No --pp-size"})
    check = _loaded(env)
    assert check.verdict is Verdict.BAD
    assert "dumps nothing: pipeline parallelism can not be dumped. No --pp-size" in check.found


def test_reverted_under_a_running_server(bench: Make, server: Start) -> None:
    env = bench()
    env.apply()
    _claim(env, server(env))
    outcome = env.revert()
    assert outcome.ok
    assert outcome.checks[-1].verdict is Verdict.WARN
    assert "a patched file that is not there any more" in outcome.checks[-1].found


def test_a_claim_of_a_process_that_ended_or_whose_pid_was_taken_counts_for_nothing(bench: Make) -> None:
    env = bench()
    env.apply()
    _claim(env, os.getpid(), start_ticks=1)
    _claim(env, 2**22 + 1)
    assert _loaded(env).found == "no server of this installation runs"


RUBBISH = ["", "{", "[]", "null", '{"pid": "x"}', '{"pid": 1e400, "start_ticks": 0}', "\0" * 99, "[" * 200_000]


@pytest.mark.parametrize("text", RUBBISH, ids=lambda text: text[:9])
def test_a_claim_that_is_rubbish_counts_for_nothing(bench: Make, text: str) -> None:
    env = bench()
    folder = Path(env.target.dump_dir) / ".loaded"
    (folder / "dir.json").mkdir(parents=True)
    (folder / "1.json").write_text(text)
    os.mkfifo(folder / "2.json")
    (folder / "3.json").symlink_to("/dev/zero")
    assert _loaded(env).verdict is Verdict.UNKNOWN


def test_a_server_of_another_installation_is_not_ours(bench: Make, server: Start) -> None:
    env, other = bench(), bench(name="other")
    server(other)
    assert _loaded(env).found == "no server of this installation runs"
    assert sys.executable != other.target.python
