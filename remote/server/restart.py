"""Stop the server and start it again: as it runs now, or as the profile says now."""

from __future__ import annotations

import dataclasses
from typing import Any

from remote.server import find, launch, preflight, running, stop
from remote.wire.errors import ChangedSincePlan, OperatorError, Refused
from remote.wire.plan import OnStep, Outcome, Plan, Step
from remote.wire.target import Target

AS_IT_RUNS, BY_PROFILE = "server.restart", "server.restart.profile"
WORDS = {AS_IT_RUNS: "as it runs", BY_PROFILE: "as the profile says"}
GONE_BY_THEN = ("server", "port", "gpus", "room")  # checks of the preflight that the stop settles; made again after it


def plan(target: Target) -> Plan:
    """With the command and environment that the running server has; notes tell what the profile would do otherwise."""
    return _plan(target, AS_IT_RUNS)


def plan_by_profile(target: Target) -> Plan:
    return _plan(target, BY_PROFILE)


def run(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    return _run(target, AS_IT_RUNS, basis, step)


def run_by_profile(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    return _run(target, BY_PROFILE, basis, step)


def _plan(profile: Target, action: str) -> Plan:
    found = find.find(profile)
    if found.parent is None:
        note = "To start one: hsconsole server start"
        return Plan(action, f"No server runs on port {profile.port}", needed=False, notes=(note,))
    wanted = _wanted(found, profile, action)
    examined = preflight.look(wanted)
    ending, starting = stop.plan(profile), launch.plan_from(wanted, examined, GONE_BY_THEN)
    now = running.target(found, profile)
    differs = running.differences(now, profile, examined.line.known) if now else ()
    return dataclasses.replace(
        starting,
        action=action,
        title=f"Restart SGLang on port {profile.port}, {WORDS[action]}",
        steps=(*ending.steps, Step("Look at everything a start needs, the port and the GPUs too"), *starting.steps),
        losses=ending.losses,
        notes=(*_notes(found, differs, action), *ending.notes, *starting.notes),
        basis={"stop": ending.basis, "start": starting.basis, "differs": list(differs)},
    )


def _run(profile: Target, action: str, basis: dict[str, Any], step: OnStep) -> Outcome:
    """Stop, with its proof, and only then start."""
    found = find.find(profile)
    if found.parent is None:
        raise ChangedSincePlan("the server has ended since", "Start it: hsconsole server start.")
    wanted = _wanted(found, profile, action)
    if launch.plan_from(wanted, preflight.look(wanted), GONE_BY_THEN).basis != basis["start"]:
        raise ChangedSincePlan(launch.OTHER_COMMAND, "Plan the restart again.")
    ended = stop.stop(profile, basis["stop"], step)
    if not ended.ok:
        return dataclasses.replace(ended, action=action, summary="Not stopped, so not started: see what is left.")
    try:
        started = launch.start(wanted, basis["start"], step)
    except OperatorError as error:
        summary = f"Stopped, and not started again: {error.what}. {error.remedy}"
        return Outcome(action, False, summary, ended.checks)
    return dataclasses.replace(started, action=action, checks=(*ended.checks, *started.checks))


def _wanted(found: find.Found, profile: Target, action: str) -> Target:
    if action == BY_PROFILE:
        return profile
    now = running.target(found, profile)
    if now is None:
        raise Refused(
            "the running server is another user's, and its command would be run by this one",
            "Log in as that user or as root, or restart by the profile: hsconsole server restart --by-profile.",
        )
    return now


def _notes(found: find.Found, differs: tuple[str, ...], action: str) -> tuple[str, ...]:
    notes = []
    if differs:
        other, flag = (BY_PROFILE, "--by-profile") if action == AS_IT_RUNS else (AS_IT_RUNS, "--as-it-runs")
        notes.append(f"The profile says otherwise than what runs: {'; '.join(differs)}")
        notes.append(f"To start it {WORDS[other]}: hsconsole server restart {flag}")
    if not found.ours and action == AS_IT_RUNS:
        notes.append("Of its environment only what SGLang, CUDA, NCCL and the hub read is taken over.")
    return tuple(notes)
