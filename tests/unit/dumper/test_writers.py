"""Threads, their memory, and what they tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from remote.dumper import loaded
from remote.dumper.budget import Budget, Lease
from remote.dumper.problem import Problem
from remote.dumper.process import start_ticks
from remote.dumper.stats import Stats
from remote.dumper.writers import Writers

from .making import ORIGIN, recorder, request


def test_a_hundred_requests_at_once(tmp_path: Path) -> None:
    stats = Stats(str(tmp_path))
    writers = Writers(recorder(tmp_path), stats)
    budget = Budget(1 << 20)
    lease = Lease(budget, 1 << 20, 100)
    assert lease.take(1)
    for at in range(100):
        writers.put(request(rid=f"r{at}", release=lease.release, problem=Problem("odd") if at % 10 == 0 else None))
    assert not budget.take(1, 0)
    assert writers.drain(30)
    assert budget.take(1 << 20, 0), "given back when the last was written"
    metas = [json.loads(path.read_text()) for path in tmp_path.glob("req_*/meta.json")]
    assert sorted(meta["counter"] for meta in metas) == list(range(100))
    assert {meta["rid"] for meta in metas} == {f"r{at}" for at in range(100)}
    counted = stats.snapshot()
    assert (counted["dumped"], counted["errors"]) == (90, {"odd": 10})


def test_what_a_thread_meets_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = Stats(str(tmp_path))
    writer = recorder(tmp_path)
    writers = Writers(writer, stats)
    real = writer.write
    monkeypatch.setattr(writer, "write", lambda request: (_ for _ in ()).throw(MemoryError("no more")))
    for _ in range(20):
        writers.put(request())
    assert writers.drain(10)
    monkeypatch.setattr(writer, "write", real)
    writers.put(request())
    assert writers.drain(10)
    assert stats.snapshot()["dumped"] == 1
    assert stats.snapshot()["errors"] == {"the dumper failed": 20}


def test_the_forward_waits_while_memory_is_spent_but_not_for_ever() -> None:
    budget = Budget(100)
    assert budget.take(1000, 0), "a pass that is larger than the limit fits alone"
    start = time.monotonic()
    assert not budget.take(1, 0.05)
    assert time.monotonic() - start >= 0.05
    threading.Timer(0.05, budget.give_back, (1000,)).start()
    assert budget.take(60, 5)
    assert not budget.take(60, 0)


def test_a_lease_that_was_never_granted_gives_nothing_back() -> None:
    budget = Budget(10)
    assert budget.take(10, 0)
    lease = Lease(budget, 5, 1)
    assert not lease.take(0)
    lease.release()
    assert not budget.take(1, 0)


def test_counters_are_told_at_most_once_a_second(tmp_path: Path) -> None:
    stats = Stats(str(tmp_path))
    path = tmp_path / ".stats" / f"{os.getpid()}.json"
    for _ in range(100):
        stats.dumped()
        stats.skipped("health check")
    stats.refused("no such layer")
    until = time.monotonic() + 5
    while time.monotonic() < until:
        told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if told.get("dumped") == 100 and told["refused"]:
            break
        time.sleep(0.05)
    assert told["skipped"] == {"health check": 100}
    assert told["refused"] == "no such layer"


def test_what_is_loaded(tmp_path: Path) -> None:
    model = tmp_path / "deepseek_v2.py"
    model.write_text("import hsconsole_dumper\n")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    for kind in (".loaded", ".stats"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{process.pid}.json").write_text("{}")
        (tmp_path / kind / f"{os.getppid()}.json").write_text("not even JSON")
    loaded.forget_dead(str(tmp_path))
    loaded.record(str(tmp_path), ORIGIN, str(model), 5.0)
    assert {path.name for path in (tmp_path / ".loaded").iterdir()} == {f"{os.getppid()}.json", f"{os.getpid()}.json"}
    assert {path.name for path in (tmp_path / ".stats").iterdir()} == {f"{os.getppid()}.json"}
    told = json.loads((tmp_path / ".loaded" / f"{os.getpid()}.json").read_text())
    assert told["start_ticks"] == start_ticks(os.getpid())
    assert (told["model_file"], told["layers"], told["started"]) == (str(model), [1, 2, 3], 5.0)
    assert len(told["model_sha256"]) == 64


def test_a_pid_that_another_process_took(tmp_path: Path) -> None:
    (tmp_path / ".loaded").mkdir()
    record = tmp_path / ".loaded" / f"{os.getpid()}.json"
    record.write_text(json.dumps({"start_ticks": 1}))
    loaded.forget_dead(str(tmp_path))
    assert not record.exists()
