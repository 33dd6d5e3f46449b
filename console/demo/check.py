"""`hsconsole demo --check`: the main job on a stage of its own, and a look afterwards whether anything is left."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from pathlib import Path

from console.demo import job
from console.demo.engine import build
from console.demo.job import Finding, JobStep, OnJobStep
from console.demo.leftovers import start_ticks
from console.demo.profile import STOOD_IN
from console.demo.progress import OnProgress, Reporter
from console.demo.stage import Stage, stage
from console.errors import OperatorError
from remote.wire.errors import ErrorReport

ENDS_IN = 10.0  # seconds; the agent and its session end with their channel, a moment after it


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """ok only if every step was. error: what kept the demo from being set up or put back."""

    ok: bool
    seconds: float
    steps: tuple[JobStep, ...]
    stood_in: tuple[str, ...] = STOOD_IN
    error: ErrorReport | None = None


def run(on_progress: OnProgress, on_step: OnJobStep) -> CheckReport:
    """Do the whole job. Never raises OperatorError: it is in the report."""
    began = time.monotonic()
    steps: list[JobStep] = []
    error: ErrorReport | None = None

    def note(step: JobStep) -> None:
        steps.append(step)
        on_step(step)

    try:
        _run(on_progress, note)
    except OperatorError as raised:
        error = raised.report()
    ok = error is None and all(step.ok for step in steps)
    return CheckReport(ok, time.monotonic() - began, tuple(steps), error=error)


def _run(on_progress: OnProgress, on_step: OnJobStep) -> None:
    def engine_ready() -> Finding:
        return Finding(True, str(build(on_progress).folder))

    if not job.measure("engine ready", engine_ready, on_step):
        return
    began = time.monotonic()
    with stage(on_progress) as made:
        on_step(JobStep("stage set", True, time.monotonic() - began, f"sshd on 127.0.0.1:{made.sshd.port}"))
        before = _processes(made)
        job.run(made.profile, Reporter(on_progress), on_step)
    job.measure("nothing left", lambda: _nothing_left(made, before), on_step)


def _nothing_left(made: Stage, before: frozenset[int]) -> Finding:
    """Look at the machine itself, past the product: processes, ports, files."""
    deadline = time.monotonic() + ENDS_IN
    while (running := _processes(made) - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = [f"process {pid}" for pid in sorted(running)]
    left += [f"sshd {made.sshd.pid}"] if start_ticks(made.sshd.pid) is not None else []
    left += [f"port {port}" for port in (made.sshd.port, made.profile.server.port) if _answers(port)]
    left += [made.profile.dump.folder] if Path(made.profile.dump.folder).exists() else []
    return Finding(not left, f"still there: {', '.join(left)}" if left else "no process, no port, no dump")


def _processes(made: Stage) -> frozenset[int]:
    """Processes that the engine's Python runs, by their command lines or the libraries they have mapped."""
    marks = str(made.engine.folder).encode()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone, or another user's
            argv, maps = (folder / "cmdline").read_bytes(), (folder / "maps").read_bytes()
            if argv.startswith(marks) or marks in maps:
                found.add(int(folder.name))
    return frozenset(found)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
