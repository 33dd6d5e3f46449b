"""The main job from connect to revert, through the same operations as the command line and the screen.

Each step looks for itself whether what it did is so; the first that finds otherwise is the last.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from console.client import AgentClient, connect
from console.config.profile import Profile
from console.demo.progress import Reporter
from console.errors import OperatorError
from console.operations import calls, follow
from console.text import span
from remote.wire.dumps import DumpState, DumpTest
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.plan import Check, Verdict
from remote.wire.server import Phase, ServerState


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a step found: ok only if its second look agreed."""

    ok: bool
    detail: str
    checks: tuple[Check, ...] = ()


@dataclasses.dataclass(frozen=True)
class JobStep:
    name: str
    ok: bool
    seconds: float
    detail: str
    checks: tuple[Check, ...] = ()


OnJobStep = Callable[[JobStep], None]


@dataclasses.dataclass
class Job:
    """What the steps hand on to each other. original: the model file and its SHA-256 before anything was done."""

    agent: AgentClient
    profile: Profile
    report: Reporter
    original: tuple[Path, str] = (Path(), "")
    numbers: tuple[int, ...] = ()


def run(profile: Profile, report: Reporter, on_step: OnJobStep) -> bool:
    """Do the whole job on `profile`, whose files this machine can read too. True if every step was ok."""
    opened: list[AgentClient] = []

    def connected() -> Finding:
        opened.append(connect(profile))
        hello = opened[0].hello
        return Finding(True, f"agent {hello.digest[:12]} on Python {hello.python_version}, over SSH")

    try:
        if not measure("connected", connected, on_step):
            return False
        job = Job(opened[0], profile, report)
        return all(measure(name, lambda step=step: step(job), on_step) for name, step in STEPS)  # type: ignore[misc]
    finally:
        for agent in opened:
            agent.close()


def measure(name: str, look: Callable[[], Finding], on_step: OnJobStep) -> bool:
    """Run one step and tell of it; an OperatorError is a finding too."""
    began = time.monotonic()
    try:
        found = look()
    except OperatorError as error:
        found = Finding(False, str(error))
    on_step(JobStep(name, found.ok, time.monotonic() - began, found.detail, found.checks))
    return found.ok


def _patch_is_clean(job: Job) -> Finding:
    status = calls.patch_status(job.agent)
    if status.state is not PatchState.CLEAN or status.model_file is None:
        return Finding(False, status.summary, status.depths)
    job.original = (Path(status.model_file), _sha256(Path(status.model_file)))
    return Finding(True, f"SGLang {status.sglang_version}, {status.family}", status.depths)


def _apply(job: Job) -> Finding:
    return _act(job, "patch.apply")


def _patch_is_applied(job: Job) -> Finding:
    status = calls.patch_status(job.agent)
    numbers = [line.number for line in status.lines]
    lines = f"{len(numbers)} marked lines, {min(numbers)} to {max(numbers)}" if numbers else "no marked line"
    return Finding(status.state is PatchState.APPLIED, lines, status.depths)


def _preflight(job: Job) -> Finding:
    page = calls.preflight(job.agent, job.profile)
    bad = [check.name for check in page.checks if check.verdict is Verdict.BAD]
    return Finding(page.ok, f"in the way: {', '.join(bad)}" if bad else f"{len(page.checks)} checks", page.checks)


def _start(job: Job) -> Finding:
    return _act(job, "server.start")


def _ready(job: Job) -> Finding:
    def on_state(state: ServerState) -> None:
        load = state.load
        percent = f" {load.percent:.0f} %" if load and load.percent is not None else ""
        job.report(state.phase.value, (load.stage if load else state.detail) + percent)

    state = follow.until_ready(job.agent, on_state)
    if state.phase is not Phase.READY:
        return Finding(False, f"{state.phase.value}: {state.cause or state.detail}")
    return Finding(True, f"HTTP {state.health_status} on port {state.port}, {len(state.processes)} processes")


def _patch_is_loaded(job: Job) -> Finding:
    status = calls.patch_status(job.agent)
    return Finding(_all_well(status), ", ".join(f"{check.name} ✓" for check in status.depths), status.depths)


def _request(job: Job) -> Finding:
    test = calls.dump_test(job.agent, job.profile, lambda step: job.report(step.title, step.detail))
    if test.number is not None:
        job.numbers = (*job.numbers, test.number)
    return Finding(test.ok, _told(test), test.checks)


def _show(job: Job) -> Finding:
    found = calls.dump(job.agent, job.numbers[-1])
    well = found.row.state is DumpState.COMPLETE and all(c.verdict is Verdict.OK for c in found.checks)
    files = ", ".join(file.name for file in found.files)
    return Finding(well, f"req_{found.row.number} {found.row.state.value}: {files}", found.checks)


def _second_request(job: Job) -> Finding:
    found = _request(job)
    goes_on = len(job.numbers) == 2 and job.numbers[1] == job.numbers[0] + 1
    return (
        found if goes_on else Finding(False, f"the numbers do not go on: {job.numbers}; {found.detail}", found.checks)
    )


def _canary(job: Job) -> Finding:
    found = calls.canary(job.agent, job.profile, lambda step: job.report(step.title, step.detail))
    well = sum(check.verdict is Verdict.OK for check in found.checks)
    return Finding(found.ok, f"{well} of {len(found.checks)} checks well in {span(found.seconds)}", found.checks)


def _stop(job: Job) -> Finding:
    return _act(job, "server.stop")


def _revert(job: Job) -> Finding:
    done = _act(job, "patch.revert")
    file, original = job.original
    if done.ok and _sha256(file) != original:
        return Finding(False, f"{file} is not what it was before the patch", done.checks)
    return done


def _patch_is_gone(job: Job) -> Finding:
    status = calls.patch_status(job.agent)
    file, original = job.original
    well = status.state is PatchState.CLEAN and _sha256(file) == original
    return Finding(well, f"{file.name} has its SHA-256 of before, {original[:12]}…", status.depths)


STEPS: tuple[tuple[str, Callable[[Job], Finding]], ...] = (
    ("patch is clean", _patch_is_clean),
    ("patch applied", _apply),
    ("patch checked", _patch_is_applied),
    ("preflight", _preflight),
    ("server started", _start),
    ("server ready", _ready),
    ("patch loaded by the server", _patch_is_loaded),
    ("test request", _request),
    ("dump verified again", _show),
    ("second request", _second_request),
    ("canary", _canary),
    ("server stopped", _stop),
    ("patch reverted", _revert),
    ("model file is the original", _patch_is_gone),
)


def _act(job: Job, action: str) -> Finding:
    plan = calls.plan(job.agent, action)
    if not plan.needed:
        return Finding(False, f"nothing to do: {'; '.join(plan.notes) or plan.title}")
    outcome = calls.run(job.agent, job.profile, plan, lambda step: job.report(step.title, step.detail))
    return Finding(outcome.ok, outcome.summary, outcome.checks)


def _all_well(status: PatchStatus) -> bool:
    return status.state is PatchState.APPLIED and all(check.verdict is Verdict.OK for check in status.depths)


def _told(test: DumpTest) -> str:
    well = sum(check.verdict is Verdict.OK for check in test.checks)
    where = "no dump" if test.number is None else f"req_{test.number}"
    return f"{where} in {span(test.seconds)}: {well} of {len(test.checks)} checks well"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
