"""How real processes end, as it is told when nobody of hsconsole was there to see it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import processes
from remote.server import exits, kernel, record, spawn
from remote.server.record import Record
from remote.wire.server import Phase
from remote.wire.target import Target
from tests.unit.server.conftest import StandIn, start, until

TARGET = Target("python3", "/m")
BUS_ERROR = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
page = mmap.mmap(file, 4096)
os.ftruncate(file, 0)  # as on a full /dev/shm: the page can't be had
page[0]
"""
FULL = "held = []\nwhile True: held.append(bytearray(b'x') * (1 << 20))"
IN_GROUP = """
import json, os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as group:
    group.write(str(os.getpid()))
from remote.server import spawn
print(json.dumps(spawn.detached([sys.executable, "-c", sys.argv[2]], {}, *sys.argv[3:])))
"""


def run(program: str, *words: str) -> Record:
    """Start it as a server would be; its record."""
    log = record.log_path(8000)
    identity = spawn.detached([sys.executable, "-c", program, *words], {}, log, exits.path(8000))
    return known(*identity)


def known(pid: int, ticks: int) -> Record:
    return Record(8000, pid, ticks, record.boot_id(), (), (), record.log_path(8000), time.time(), "x")


def ended(of: Record) -> exits.Exit:
    until(lambda: exits.read(of))
    found = exits.read(of)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("program", "status", "cause", "says"),
    [
        (BUS_ERROR, -7, "shm", "exit -7"),
        ("import os; os.kill(os.getpid(), 9)", -9, "killed", "kill -9"),
        ("import os; os.kill(os.getpid(), 15)", -15, "ended", "Not by hsconsole"),
        ("import os; os.abort()", -6, "crashed", "SIGSEGV"),
        ("import ctypes; ctypes.string_at(0)", -11, "crashed", "exit -11"),
        ("print('bye')", 0, "ended", "without an error"),
        ("raise SystemExit(3)", 3, "unknown", "exit 3"),
        ("import flashinfer_of_old", 1, "import", "flashinfer_of_old"),
        ("open('/no/such/model-00001-of-00002.safetensors')", 1, "weights", "model-00001-of-00002"),
        (
            "import socket; a, b = socket.socket(), socket.socket(); a.bind(('', 0)); b.bind(a.getsockname())",
            1,
            "port",
            "",
        ),
    ],
)
def test_a_real_end_is_told(
    program: str, status: int, cause: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_log", str)  # whatever else this machine has to tell
    server = run(program, str(tmp_path / "page"))
    assert ended(server).status == status
    death = exits.cause(server, TARGET)
    assert (death.id, bool(death.remedy)) == (cause, True)
    assert says in death.what


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory control group of 100 MB, of either version."""
    group = processes.cgroup(os.getpid()).strip("/")
    two = kernel.CGROUPS / "cgroup.controllers"
    folder = (kernel.CGROUPS if two.exists() else kernel.CGROUPS / "memory") / group / f"hsconsole-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.max" if two.exists() else "memory.limit_in_bytes")).write_text("100M")
        if (folder / "memory.swap.max").exists():
            (folder / "memory.swap.max").write_text("0")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group of one's own: {error}")
    yield folder
    until(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


def test_a_real_end_for_want_of_memory_is_told(small_group: Path) -> None:
    words = [str(small_group), FULL, record.log_path(8000), exits.path(8000)]
    done = subprocess.run([sys.executable, "-c", IN_GROUP, *words], capture_output=True, timeout=60, check=True)
    server = known(*json.loads(done.stdout))
    found = ended(server)
    assert (found.status, found.oom_kills) == (-9, 1)
    death = exits.cause(server, TARGET)
    assert (death.id, "Killed for want of memory" in death.what) == ("killed_for_memory", True)


def test_the_end_is_kept_when_who_started_it_is_gone(stand_in: StandIn) -> None:
    server = start(stand_in.target)
    waiting = next(
        p for p in processes.table().values() if "tell how it ends" in " ".join(p.argv) and _waits(p, server)
    )
    assert waiting.parent != os.getpid()
    assert waiting.session == waiting.pid
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: exits.read(server))
    found = stand_in.reaches(Phase.CRASHED)
    assert "Killed from outside" in (found.cause or "")
    assert found.remedy
    until(lambda: processes.alive(waiting.identity) is None)


def _waits(process: processes.Process, server: Record) -> bool:
    return server.pid in {child.pid for child in processes.descendants(process.pid, processes.table())}


def test_without_who_waits_the_end_is_told_by_the_log_alone(stand_in: StandIn) -> None:
    server = start(stand_in.target)
    waiting = next(
        p for p in processes.table().values() if "tell how it ends" in " ".join(p.argv) and _waits(p, server)
    )
    processes.send(waiting.identity, signal.SIGKILL)
    processes.send(server.identity, signal.SIGKILL)
    found = stand_in.reaches(Phase.CRASHED)
    assert "the log gives no reason" in (found.cause or "") or "Killed for want" in (found.cause or "")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": 1}', '{"pid":1,"start_ticks":1,"status":0,"at":NaN}', "[" * 9999]
)
def test_an_end_that_cant_be_read_is_none(text: str) -> None:
    Path(exits.path(8000)).write_text(text)
    assert exits.read(known(1, 1)) is None


def test_the_end_of_another_server_is_not_this_ones() -> None:
    server = run("print('bye')")
    assert ended(server).status == 0
    assert exits.read(dataclasses.replace(server, start_ticks=server.start_ticks + 1)) is None


def test_the_kernels_words_count_around_the_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)  # a machine that has run for a while
    said = "<4>[{:12.6f}] Out of memory: Killed process {} (python3) total-vm:1kB"
    lines = [said.format(now - age, age) for age in (900, 300, 1)]
    monkeypatch.setattr(kernel, "_log", lambda: "\n".join([*lines, "odd", "[x] NVRM: Xid"]))
    long_ago = dataclasses.replace(known(1, 1), started=time.time() - 3600)
    told = exits.traces(long_ago, exits.Exit(1, 1, -9, time.time() - 299))
    assert [line.split()[6] for line in told if line.startswith("kernel")] == ["300"]
    assert exits.traces(long_ago, exits.Exit(1, 1, -9, time.time() - 299, oom_kills=0)) == ["exit -9", "oom_kill 0"]
    just_started = dataclasses.replace(known(1, 1), started=time.time() - 60)
    assert "Killed process 1 " in exits.cause(just_started, TARGET).what
