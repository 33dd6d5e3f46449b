from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote import processes
from remote.telemetry import segments, stale
from tests.nvml import Agent, Driver, build, usual
from tests.unit.telemetry.leaving import HOLDING, Hold

StartAgent = Callable[..., Agent]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The driver that all agents of these tests see; each test says how it is."""
    return Driver(tmp_path_factory.mktemp("driver") / "plan")


@pytest.fixture(scope="module")
def agent(driver: Driver, library: Path) -> Iterator[Agent]:
    """One that is asked again and again, and watches nothing."""
    made = Agent(driver, library)
    yield made
    made.kill()


@pytest.fixture
def start(driver: Driver, library: Path) -> Iterator[StartAgent]:
    """Starts agents of the test's own, with the stand-in library or another one."""
    driver.says(*usual(8))
    agents: list[Agent] = []

    def make(*options: str, library: Path | None = library, **more: Any) -> Agent:
        agents.append(Agent(driver, library, *options, **more))
        return agents[-1]

    yield make
    for agent in agents:
        agent.kill()


@pytest.fixture
def shm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A /dev/shm of the test's own, where root may mount one a real tmpfs. Looked at are only this test's processes."""
    folder = Path(tempfile.mkdtemp(prefix="shm-"))
    mounted = (
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False).returncode == 0
    )
    folder.chmod(0o1777)
    monkeypatch.setattr(segments, "SHM", folder)
    monkeypatch.setattr(stale, "QUIET", 0.0)
    monkeypatch.setattr(stale, "SLACK", 0.05)
    monkeypatch.setattr(stale, "outside", str)
    table = processes.table

    def own() -> dict[int, processes.Process]:
        return {process.pid: process for process in processes.descendants(os.getpid(), table())}

    monkeypatch.setattr(processes, "table", own)
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", folder], check=True)
    shutil.rmtree(folder)


@pytest.fixture
def hold(shm: Path) -> Iterator[Hold]:
    """Starts a process that holds a file in one of the ways of holding.py; returns its pid."""
    with contextlib.ExitStack() as running:

        def start(way: str, name: str) -> int:
            command = [sys.executable, "-IS", str(HOLDING), way, str(shm / name)]
            made = running.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert made.stdout is not None
            assert made.stdout.readline() == "ready\n"
            running.callback(made.stdin.close if made.stdin else str)
            return made.pid

        yield start
