"""The whole main job, as `hsconsole demo --check` does it, and what a demo that is ended early leaves: nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo import leftovers
from console.demo.engine import Engine, cache_folder
from console.demo.job import STEPS
from console.demo.progress import Progress
from console.demo.stage import stage
from console.errors import DemoError
from tests.engine.server import wait_for

CHECK = [sys.executable, "-m", "console", "demo", "--check", "--json"]
LIMIT = 600  # seconds for a whole check; on a machine of its own it takes one minute
RECORD = "record.json"


def model_file(engine: Engine) -> Path:
    (found,) = engine.folder.glob("venv/lib/python3*/site-packages/sglang/srt/models/deepseek_v2.py")
    return found


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def a_demo_until(tmp_path: Path, words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A check that runs in a process of its own, as soon as it has said `words`."""
    said = tmp_path / "said"
    with said.open("wb") as stderr:
        process = subprocess.Popen(CHECK, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        wait_for(words, lambda: words in said.read_text() or process.poll() is not None)
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_main_job_from_patch_to_revert(engine: Engine) -> None:
    before = model_file(engine).read_bytes()
    done = subprocess.run(CHECK, capture_output=True, text=True, timeout=LIMIT, check=False)
    report = json.loads(done.stdout)
    steps = {step["name"]: step for step in report["steps"]}
    assert [step for step in steps.values() if not step["ok"]] == []
    assert list(steps) == ["engine ready", "stage set", "connected", *[name for name, _ in STEPS], "nothing left"]
    assert report["ok"] is True
    assert report["error"] is None
    assert done.returncode == 0, done.stderr
    assert report["stood_in"], "what can't be real here must be said"
    assert {check["name"] for check in steps["patch loaded by the server"]["checks"]} == {
        "text",
        "hash",
        "imported",
        "loaded",
    }
    assert "loading" in done.stderr, "the load is watched"
    assert model_file(engine).read_bytes() == before


def test_a_killed_demo_is_healed_by_the_next(engine: Engine, tmp_path: Path) -> None:
    before = model_file(engine).read_bytes()
    with a_demo_until(tmp_path, "loading") as process:
        process.kill()
        process.wait()
    assert model_file(engine).read_bytes() != before, "killed while its patch was applied"
    record = json.loads((cache_folder() / "stage" / RECORD).read_text())
    left = leftovers.start_ticks(record["sshd_pid"])
    assert left == record["sshd_start_ticks"], "killed while its sshd ran"
    said: list[Progress] = []
    with stage(said.append) as made:
        assert model_file(engine).read_bytes() == before
        assert leftovers.start_ticks(record["sshd_pid"]) != left
        assert made.profile.server.port != record["profile"]["server"]["port"] or not answers(made.profile.server.port)
        assert not Path(record["profile"]["dump"]["folder"]).exists()
    assert "putting back what an earlier demo left" in [progress.stage for progress in said]
    assert not (cache_folder() / "stage" / RECORD).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_puts_everything_back(engine: Engine, tmp_path: Path, number: signal.Signals) -> None:
    before = model_file(engine).read_bytes()
    with a_demo_until(tmp_path, "Start") as process:
        os.kill(process.pid, number)
        assert process.wait(timeout=LIMIT) == 130
    assert model_file(engine).read_bytes() == before
    assert not (cache_folder() / "stage" / RECORD).exists()


def test_a_second_demo_is_told_who_runs_the_first(engine: Engine) -> None:
    said: list[Progress] = []
    with (
        stage(lambda progress: None),
        pytest.raises(DemoError, match=f"process {os.getpid()} is running the demo"),
        stage(said.append, patience=1),
    ):
        pytest.fail("two demos patch one engine")
    assert "waiting for another demo" in [progress.stage for progress in said]
