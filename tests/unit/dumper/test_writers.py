"""Threads, their memory, and what they tell."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import remote.dumper
from remote.dumper import loaded
from remote.dumper.problem import Problem
from remote.dumper.process import start_ticks
from remote.dumper.request import Part, Writing
from remote.dumper.start import _Claim
from remote.dumper.stats import Stats
from remote.dumper.writers import Line, Writers
from tests.living import PATIENCE

from .making import ORIGIN, RANK, desk, part


def put(writers: Writers, stats: Stats, writing: Writing, *parts: Part) -> None:
    line = Line()
    for one in parts:
        writers.put(line, functools.partial(writing.add, one))
    writers.put(line, lambda: stats.ended(writing.finish()))


def test_a_hundred_requests_at_once(tmp_path: Path) -> None:
    stats, writers, place = Stats(str(tmp_path)), Writers(4), desk(tmp_path)
    released: list[str] = []
    for at in range(100):
        problem = Problem("odd") if at % 10 == 0 else None
        first = part(3, release=lambda at=at: released.append(f"{at}"), problem=problem)  # type: ignore[misc]
        put(writers, stats, Writing(place, f"r{at}", RANK), first, part(4, first=3))
    assert writers.drain(PATIENCE)
    assert sorted(released, key=int) == [f"{at}" for at in range(100)]
    metas = [json.loads(path.read_text()) for path in tmp_path.glob("req_*/meta.json")]
    assert sorted(meta["counter"] for meta in metas) == list(range(100))
    assert {meta["rid"] for meta in metas} == {f"r{at}" for at in range(100)}
    assert {meta["num_tokens"] for meta in metas} == {7}
    counted = stats.snapshot()
    assert (counted["dumped"], counted["errors"]) == (90, {"odd": 10})


def test_work_of_one_line_is_done_in_its_order_one_at_a_time() -> None:
    writers, line = Writers(8), Line()
    done: list[int] = []

    def work(number: int) -> None:
        before = len(done)
        time.sleep(0.0005)
        assert len(done) == before
        done.append(number)

    for number in range(100):
        writers.put(line, functools.partial(work, number))
    assert writers.drain(PATIENCE)
    assert done == list(range(100))


def test_what_a_thread_meets_does_not_end_it(tmp_path: Path) -> None:
    stats, writers = Stats(str(tmp_path)), Writers(2)

    def fail() -> None:
        raise MemoryError("no more")

    for _ in range(20):
        writers.put(Line(), fail)
    assert writers.drain(PATIENCE)
    put(writers, stats, Writing(desk(tmp_path), "r", RANK), part())
    assert writers.drain(PATIENCE)
    assert stats.snapshot()["dumped"] == 1


@pytest.mark.parametrize("there", [0, 1, 2])
def test_a_system_that_has_no_more_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int) -> None:
    """It has `there` of them, and later all: nothing reaches the forward, and nothing is lost or done twice."""
    left = [there]

    def start(thread: threading.Thread, real: Any = threading.Thread.start) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        real(thread)

    stats, writers = Stats(str(tmp_path)), Writers(4)
    done: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for number in range(20):
            writers.put(Line(), functools.partial(done.append, number))
        stats.failed("no threads")
        assert writers.drain(10 if there else 0) == bool(there)
    stats.failed("no threads")
    writers.put(Line(), functools.partial(done.append, 20))
    assert writers.drain(10)
    assert sorted(done) == list(range(21))
    told = tmp_path / ".stats" / f"{os.getpid()}.json"
    deadline = time.monotonic() + PATIENCE
    while not told.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert stats.snapshot()["errors"] == {"no threads": 2}


def test_counters_are_told_at_most_once_a_second(tmp_path: Path) -> None:
    stats = Stats(str(tmp_path))
    path = tmp_path / ".stats" / f"{os.getpid()}.json"
    for _ in range(100):
        stats.ended(None)
        stats.passed(0.001, 2)
        stats.skipped("health check")
    stats.refused("no such layer")
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if told.get("dumped") == 100 and told["refused"]:
            break
        time.sleep(0.05)
    assert told["skipped"] == {"health check": 100}
    assert told["refused"] == "no such layer"
    assert (told["passes"], told["requests"], round(told["forward_seconds"], 3)) == (100, 200, 0.1)


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
    loaded.record(str(tmp_path), ORIGIN, {str(model): loaded.sha256(str(model)), "/gone": None}, 5.0)
    assert {path.name for path in (tmp_path / ".loaded").iterdir()} == {f"{os.getppid()}.json", f"{os.getpid()}.json"}
    assert {path.name for path in (tmp_path / ".stats").iterdir()} == {f"{os.getppid()}.json"}
    told = json.loads((tmp_path / ".loaded" / f"{os.getpid()}.json").read_text())
    assert told["start_ticks"] == start_ticks(os.getpid())
    assert (told["layers"], told["started"]) == ([1, 2, 3], 5.0)
    assert told["model_files"] == {str(model): hashlib.sha256(model.read_bytes()).hexdigest(), "/gone": None}
    assert told["problem"] is None
    loaded.record(str(tmp_path), ORIGIN, {}, 5.0, Problem("no such layer", "it has four"))
    told = json.loads((tmp_path / ".loaded" / f"{os.getpid()}.json").read_text())
    assert told["problem"] == {"cause": "no such layer", "detail": "it has four"}


class Shy(ModuleType):
    """A module that brings its attributes in when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def test_every_patched_file_that_a_process_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "llama.py", tmp_path / "qwen2.py"
    for model in (first, second):
        model.write_text(f"# {model}\n")
    hashes = {str(model): loaded.sha256(str(model)) for model in (first, second)}
    claim = _Claim(str(tmp_path), ORIGIN, str(first))
    claim.record()
    told = tmp_path / ".loaded" / f"{os.getpid()}.json"
    assert json.loads(told.read_text())["model_files"] == {str(first): hashes[str(first)]}
    for name, path, dumper in (("a", first, remote.dumper), ("b", second, remote.dumper), ("c", told, None)):
        module = ModuleType(name)
        module.__dict__.update(_HS_DUMP=dumper, __file__=str(path))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "d", Shy("d"))
    claim.record()
    first.write_text("# changed since")
    claim.refuse(Problem("no such layer"))
    assert json.loads(told.read_text())["model_files"] == hashes


def test_a_pid_that_another_process_took(tmp_path: Path) -> None:
    (tmp_path / ".loaded").mkdir()
    record = tmp_path / ".loaded" / f"{os.getpid()}.json"
    record.write_text(json.dumps({"start_ticks": 1}))
    loaded.forget_dead(str(tmp_path))
    assert not record.exists()


@pytest.mark.parametrize("name", ["².json", "١.json", "1²", ".json", f"{10**40}.json", "-1.json"])
def test_names_that_look_like_numbers(tmp_path: Path, name: str) -> None:
    """Anybody may leave them there; the server's dumper starts all the same."""
    for kind in (".loaded", ".stats"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / name).write_text("{}")
    loaded.forget_dead(str(tmp_path))
