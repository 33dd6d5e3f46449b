"""A Proxmox host that is this machine: its lines run here, with programs of ours for those that must not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import LinkError
from console.operations import recover, recovery_ways
from console.operations.hostview import HostFacts
from console.ssh.exchange import Ran
from console.ssh.pct import pct_exec
from remote import processes
from remote.wire.plan import Outcome, Plan, StepResult

PROGRAMS = {
    "sudo": 'shift\nexec "$@"',
    "pct": """
case $1 in
  exec) shift 4; exec "$@" ;;
  status) echo "status: $(cat "$0.state")" ;;
  stop) echo stopped >"$0.state" ;;
  start) echo running >"$0.state" ;;
esac""",
    "systemctl": "exit 0",
    "ss": "echo 'LISTEN 0 128 0.0.0.0:22 0.0.0.0:*'",
}
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
FILE = "freezer.state"


def shown(plan: Plan) -> list[str]:
    return [step.command for step in plan.steps if step.command]


class HereHost:
    """A host whose lines are run by this machine's sh, with programs of ours for those that it must not run."""

    lines: list[str]
    folder: Path
    facts: HostFacts

    def __init__(self, proxmox: Proxmox) -> None:
        self.proxmox = proxmox
        self.prefix, self.limits = "sudo -n ", ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, line: str, timeout: float = 20.0) -> Ran:
        self.lines.append(line)
        path = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", line], env=path, cwd=self.folder, capture_output=True, timeout=timeout)
        return Ran(done.returncode, done.stdout, done.stderr)

    def execute(self, *words: str, timeout: float = 20.0) -> Ran:
        return self.run(self.prefix + pct_exec(129, *words), timeout)

    def look(self, port: int) -> HostFacts:
        return self.facts

    def becomes(self, wanted: str, seconds: float = 5.0) -> bool:
        return self.run("sudo -n pct status 129").out.decode().strip() == f"status: {wanted}"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[HereHost]:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "pct.state").write_text("running\n")
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "laptop"))
    monkeypatch.setattr(recovery_ways, "ProxmoxHost", HereHost)
    monkeypatch.setattr(recovery_ways.Ways, "_agent_by_host", no_way)
    monkeypatch.setattr(recover, "PATIENCE", {"TERM": 0.3, "KILL": 5.0})
    HereHost.lines, HereHost.folder, HereHost.facts = [], folder, HostFacts(1)
    return HereHost


def no_way(ways: recovery_ways.Ways) -> Any:
    raise LinkError("no way in")


def profile() -> Profile:
    return Profile(
        name="here",
        container=Container(host="ct129", python="/p"),
        proxmox=Proxmox(host="pve1", vmid=129),
        server=Server(model_path="/m"),
        dump=Dump(folder="/dev/shm/x"),
    )


@pytest.fixture
def deaf() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts processes that only KILL ends."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ticks(process: subprocess.Popen[bytes]) -> int:
    found = processes.read(process.pid)
    assert found is not None
    return found.start_ticks


def recovered(plan: Plan) -> tuple[Outcome, list[StepResult]]:
    steps: list[StepResult] = []
    return recover.run(None, profile(), plan, steps.append), steps


def changing(host: type[HereHost]) -> list[str]:
    """Lines that do more than look."""
    return [
        line for line in host.lines if " hsconsole 0 " not in line and "status" not in line and "ss -ltn" not in line
    ]
