"""Every call the agent answers, by name. Handlers take the call's context and its arguments as keywords."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any, Callable, Optional

from remote import audit, survey
from remote.canary import canary, replay
from remote.dumps import detail, request, watch
from remote.patch import operations as patch
from remote.server import launch, log, preflight, probe, recover, restart, state, stop, suspects
from remote.telemetry import clean, gpus, shm
from remote.wire.dumps import Level, VerifySummary
from remote.wire.errors import OperatorError, WireError
from remote.wire.host import Pong
from remote.wire.plan import OnStep, Outcome, Plan
from remote.wire.target import Target


@dataclasses.dataclass
class Context:
    """What a handler may use.

    emit: sends an event of this call. cancelled: set when the console cancels the call or leaves.
    """

    target: Optional[Target]
    emit: Callable[[Any], None]
    cancelled: threading.Event


@dataclasses.dataclass(frozen=True)
class Action:
    """Something that changes the container. run takes the plan's basis and refuses when it no longer holds."""

    plan: Callable[[Target], Plan]
    run: Callable[[Target, dict[str, Any], OnStep], Outcome]


ACTIONS: dict[str, Action] = {
    "patch.apply": Action(patch.plan_apply, patch.apply),
    "patch.revert": Action(patch.plan_revert, patch.revert),
    "server.start": Action(launch.plan, launch.start),
    "server.stop": Action(stop.plan, stop.stop),
    "shm.clean": Action(clean.plan, clean.clean),
    restart.AS_IT_RUNS: Action(restart.plan, restart.run),
    restart.BY_PROFILE: Action(restart.plan_by_profile, restart.run_by_profile),
}


def _target(context: Context) -> Target:
    if context.target is None:
        raise WireError("no target was opened on this link")
    return context.target


def _action(name: str) -> Action:
    try:
        return ACTIONS[name]
    except KeyError:
        raise OperatorError(f"no action is called {name!r}", f"Actions: {', '.join(ACTIONS)}") from None


# Handlers of what leaves a trace take the console's ticket, by which both audit logs tell of the same action.
Ticket = Optional[dict[str, Any]]


def _run(context: Context, action: str, basis: dict[str, Any], ticket: Ticket = None) -> Outcome:
    run, target = _action(action).run, _target(context)
    return audit.record(target, action, ticket, context.emit, lambda emit: run(target, basis, emit), basis)


def _recorded(name: str, work: Callable[[Context, Callable[[Any], None]], Any]) -> Callable[..., Any]:
    def handler(context: Context, ticket: Ticket = None) -> Any:
        return audit.record(_target(context), name, ticket, context.emit, lambda emit: work(context, emit))

    return handler


def _verify(
    context: Context, numbers: Optional[list[int]] = None, level: str = "content", ticket: Ticket = None
) -> VerifySummary:
    target = _target(context)

    def verify(_: Any = None) -> VerifySummary:
        return replay.run(target, numbers, Level(level), context.emit, context.cancelled)

    if Level(level) is not Level.MEANING:
        return verify()
    notes: list[str] = []  # its events are no steps
    found = audit.record(target, "dumps.verify", ticket, lambda step: notes.append(step.detail), verify)
    return dataclasses.replace(found, note="; ".join(notes))


CALLS: dict[str, Callable[..., Any]] = {
    "ping": lambda _: Pong(time.time()),
    "survey": lambda _, pythons=(): survey.survey(tuple(pythons)),
    "plan": lambda c, action: _action(action).plan(_target(c)),
    "run": _run,
    "patch.status": lambda c: patch.status(_target(c)),
    "server.state": lambda c: state.read(_target(c)),
    "server.preflight": lambda c: preflight.examine(_target(c)),
    "server.probe": lambda c: probe.ask_for_a_token(_target(c)),
    "server.log": lambda c, lines=200: log.tail(_target(c), lines),
    "gpus": lambda _: gpus.read(),
    "shm": lambda c: shm.read(_target(c).dump_dir),
    "dumps.list": lambda c, last=50: watch.newest(_target(c).dump_dir, last),
    "dumps.show": lambda c, number: detail.show(_target(c).dump_dir, number),
    "dumps.verify": _verify,
    "canary": _recorded("canary", lambda c, emit: canary.run(_target(c), emit, c.cancelled)),
    "dumps.test": _recorded("dumps.test", lambda c, emit: request.test(_target(c), emit)),
    "audit.show": lambda _, last=40: audit.show(last),
    "audit.verify": lambda _: audit.verify(),
    "audit.fate": lambda _, ident: audit.fate(ident),
    "recover.facts": lambda c: suspects.facts(_target(c)),
    "recover.end": lambda c, basis, ticket=None: audit.record(
        _target(c), "server.recover", ticket, c.emit, lambda emit: recover.end(_target(c), basis, emit), basis
    ),
    "watch.server": lambda c: state.watch(_target(c), c.emit, c.cancelled),
    "watch.gpus": lambda c: gpus.watch(c.emit, c.cancelled),
    "watch.shm": lambda c: shm.watch(_target(c).dump_dir, c.emit, c.cancelled),
    "watch.dumps": lambda c, last=1000: watch.watch(_target(c).dump_dir, last, c.emit, c.cancelled),
    "watch.log": lambda c, lines=200, after="": log.follow(_target(c), lines, c.emit, c.cancelled, after),
}
