"""Start the server: everything examined first, then one detached process, a record of it, and a second look."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection
from typing import Any, Optional

from remote import processes
from remote.server import command, exits, log, preflight, record, spawn, state
from remote.server.preflight import Examination
from remote.telemetry import gpus
from remote.wire.errors import ChangedSincePlan, Refused, ServerError
from remote.wire.masking import mask_argv
from remote.wire.plan import Check, OnStep, Outcome, Plan, Step, StepResult, Verdict
from remote.wire.server import Phase
from remote.wire.target import Target

ACTION = "server.start"
SECOND_LOOK = 1.5  # seconds after the start; a wrong interpreter or flag ends it sooner
OTHER_COMMAND = "the command, or the patched file, is another one now"


def plan(target: Target) -> Plan:
    """What a start would run. Not needed when our server runs already; Refused where the preflight finds it in vain."""
    running = _already(target)
    if running:
        return Plan(ACTION, running, needed=False)
    return plan_from(target, preflight.look(target))


def plan_from(target: Target, examined: Examination, besides: Collection[str] = ()) -> Plan:
    """The plan by what a preflight found. besides: names of checks that will be well when it runs."""
    _refuse(examined, besides)
    env = command.environment(target)
    return Plan(
        action=ACTION,
        title=f"Start SGLang on port {target.port}",
        needed=True,
        steps=(
            Step("Start the server, detached", command.shown(command.argv(target, examined.line), env)),
            Step(f"Look again: the process lives, and its log begins ({record.log_path(target.port)})"),
        ),
        notes=_notes(examined, besides),
        basis=_basis(target, examined),
    )


def start(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    """Start it if everything is as the plan said. The outcome says 'started', not 'ready': that takes minutes."""
    with record.lock(target.port, "is starting"):
        running = _already(target)
        if running:
            raise ChangedSincePlan(running, "Look at it with: hsconsole status.")
        examined = preflight.look(target)
        _refuse(examined)
        if _basis(target, examined) != basis:
            raise ChangedSincePlan(OTHER_COMMAND, "Plan the start again.")
        began = time.monotonic()
        started = _launch(target, examined)
        detail = f"pid {started.pid}, log {started.log}"
        ran = command.shown(command.argv(target, examined.line), command.environment(target))
        step(StepResult("Start the server, detached", True, detail, time.monotonic() - began, ran))
    deadline = time.monotonic() + SECOND_LOOK
    while time.monotonic() < deadline and exits.read(started) is None:
        time.sleep(0.1)
    return _second_look(target, started, step)


def _already(target: Target) -> str:
    seen = state.read(target)
    ours = any(process.ours for process in seen.processes)
    if not ours or seen.pid is None or seen.phase not in (Phase.READY, Phase.STARTING, Phase.LOADING):
        return ""
    known = record.read(target.port)
    by = f", started by {known.by}" if known else ""
    return f"The server already runs: pid {seen.pid}{by}, {seen.phase.value}"


def _refuse(examined: Examination, besides: Collection[str] = ()) -> None:
    bad = [check for check in examined.report.checks if check.verdict is Verdict.BAD and check.name not in besides]
    if bad:
        what = "; ".join(f"{check.name}: {check.found}" for check in bad)
        raise Refused(what, " ".join(dict.fromkeys(check.remedy for check in bad if check.remedy)))


def _notes(examined: Examination, besides: Collection[str]) -> tuple[str, ...]:
    checks = [check for check in examined.report.checks if check.name not in besides]
    warned = (f"{check.name}: {check.found}" for check in checks if check.verdict in (Verdict.WARN, Verdict.UNKNOWN))
    return tuple(warned)


def _basis(target: Target, examined: Examination) -> dict[str, Any]:
    """The command with its environment, hashed because of secrets in it, and the file that will be imported."""
    whole = [command.argv(target, examined.line), sorted(command.environment(target).items())]
    return {
        "command_sha256": hashlib.sha256(json.dumps(whole).encode()).hexdigest(),
        "model_file_sha256": examined.patch.file_sha256 if examined.patch else None,
        "sglang_version": examined.python.sglang_version,
    }


def _launch(target: Target, examined: Examination) -> record.Record:
    argv = command.argv(target, examined.line)
    env = command.environment(target)
    path = _begin_log(target, command.shown(argv, env))
    baseline = {str(gpu.index): gpu.memory_used for gpu in gpus.read().gpus if gpu.memory_used is not None}
    pid, start_ticks = spawn.detached(argv, env, path, exits.path(target.port))
    started = record.Record(
        port=target.port,
        pid=pid,
        start_ticks=start_ticks,
        boot_id=record.boot_id(),
        argv=tuple(mask_argv(argv)),
        env=tuple(sorted(env)),
        log=path,
        started=time.time(),
        by=record.who(),
        sglang_version=examined.python.sglang_version,
        health_path=examined.health_path,
        gpus=baseline,
    )
    try:
        record.write(started)
    except OSError as error:
        raise ServerError(
            f"pid {pid} was started, but no record of it can be written: {error.strerror}",
            "Make room where the log is. Until it is stopped it counts as a server that hsconsole did not start.",
        ) from None
    return started


def _begin_log(target: Target, shown: str) -> str:
    try:
        path = record.rotate_log(target.port)
        with open(path, "a", encoding="utf-8", opener=record.private) as file:
            file.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] hsconsole starts: {shown}\n")
    except OSError as error:
        where = record.log_path(target.port)
        raise ServerError(f"its log can't be written, {where}: {error.strerror}", "Make room there.") from None
    return path


def _second_look(target: Target, started: record.Record, step: OnStep) -> Outcome:
    began = time.monotonic()
    process = processes.alive(started.identity)
    lines = log.tail(target, log.MOST_LINES).lines
    checks = (
        Check("process", Verdict.OK, f"pid {started.pid} lives, session {process.session}")
        if process
        else _gone(started, target),
        Check("log", Verdict.OK, f"{started.log}: begun, {len(lines)} so far")
        if lines
        else Check("log", Verdict.BAD, f"{started.log}: nothing"),
    )
    ok = all(check.verdict is Verdict.OK for check in checks)
    step(StepResult("Look again", ok, "; ".join(check.found for check in checks), time.monotonic() - began))
    return Outcome(ACTION, ok, _summary(target, process is not None), checks)


def _gone(started: record.Record, target: Target) -> Check:
    death = exits.cause(started, target)
    return Check("process", Verdict.BAD, f"pid {started.pid} is gone. {death.what}", death.remedy)


def _summary(target: Target, lives: Optional[bool]) -> str:
    if lives:
        return f"Started on port {target.port}, loading. It is ready when its state says so."
    return "The server ended right after its start."
