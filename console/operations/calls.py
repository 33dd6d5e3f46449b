"""Typed questions to the agent: one function a call, and plan and run for the actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from console import audit
from console.cancel import Cancel
from console.config.profile import Profile
from console.operations import fate, gpuholders
from console.operations.fate import Wait
from remote.wire.audit import ChainReport, Entries, Ticket
from remote.wire.codec import decode
from remote.wire.dumps import (
    Canary,
    DumpDetail,
    DumpsChange,
    DumpTest,
    Level,
    VerifyProgress,
    VerifySummary,
)
from remote.wire.host import Survey
from remote.wire.patch import PatchStatus
from remote.wire.plan import Check, OnStep, Outcome, Plan
from remote.wire.server import LogLines, Preflight, ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

PATIENT = 60.0  # seconds; for calls that read files or run an interpreter
ACTION = 180.0  # seconds; a stop's ladder and a patch's checks end well within
REQUEST = (
    360.0  # seconds; the agent gives the server 300 for an answer, as a first one compiles kernels, and 30 for a dump
)


class Agent(Protocol):
    """What an operation needs of a link. `timeout` bounds the silence, not the whole call: each event renews it.

    cancel: ends the call early; what it then answers is returned.
    """

    def call(
        self,
        name: str,
        *,
        timeout: float = 30.0,
        on_event: Callable[[Any], None] | None = None,
        cancel: Cancel | None = None,
        **args: Any,
    ) -> Any: ...


def survey(agent: Agent, pythons: tuple[str, ...] = ()) -> Survey:
    return decode(Survey, agent.call("survey", timeout=PATIENT, pythons=list(pythons)))


def patch_status(agent: Agent) -> PatchStatus:
    return decode(PatchStatus, agent.call("patch.status", timeout=PATIENT))


def server_state(agent: Agent) -> ServerState:
    return decode(ServerState, agent.call("server.state"))


def preflight(agent: Agent, profile: Profile) -> Preflight:
    """On one page; where GPUs are in use, with what the Proxmox host says of who holds them."""
    page = decode(Preflight, agent.call("server.preflight", timeout=PATIENT))
    return dataclasses.replace(page, checks=gpuholders.explain(agent, profile, page.checks))


def server_probe(agent: Agent) -> Check:
    """Does the running server answer a request of one token? Makes no dump."""
    return decode(Check, agent.call("server.probe", timeout=PATIENT))


def server_log(agent: Agent, lines: int = 200) -> LogLines:
    return decode(LogLines, agent.call("server.log", lines=lines))


def gpus(agent: Agent) -> GpuSnapshot:
    return decode(GpuSnapshot, agent.call("gpus"))


def shm(agent: Agent) -> ShmSnapshot:
    return decode(ShmSnapshot, agent.call("shm"))


def dumps(agent: Agent, last: int = 50) -> DumpsChange:
    return decode(DumpsChange, agent.call("dumps.list", timeout=PATIENT, last=last))


def dump(agent: Agent, number: int) -> DumpDetail:
    return decode(DumpDetail, agent.call("dumps.show", timeout=PATIENT, number=number))


def dump_test(agent: Agent, profile: Profile, on_step: OnStep, wait: Wait | None = None) -> DumpTest:
    """Send ids 1…10 and check the dump they leave."""

    def work(on_step: OnStep, ticket: Ticket) -> DumpTest:
        return decode(DumpTest, fate.act(agent, "dumps.test", ticket, on_step, timeout=REQUEST, wait=wait))

    return audit.record(profile, "dumps.test", work, on_step)


def dumps_verify(
    agent: Agent,
    profile: Profile,
    numbers: Sequence[int] | None,
    level: Level,
    on_progress: Callable[[VerifyProgress], None],
    cancel: Cancel | None = None,
) -> VerifySummary:
    """Verify dumps, all without `numbers`; results come by `on_progress`. The level of meaning asks the server."""

    def ask(**more: Any) -> VerifySummary:
        answer = agent.call(
            "dumps.verify",
            timeout=REQUEST,
            on_event=lambda e: on_progress(decode(VerifyProgress, e)),
            cancel=cancel,
            numbers=None if numbers is None else list(numbers),
            level=level.value,
            **more,
        )
        return decode(VerifySummary, answer)

    if level is not Level.MEANING:
        return ask()
    notes: list[str] = []
    found = audit.record(
        profile, "dumps.verify", lambda _, ticket: ask(ticket=ticket), lambda step: notes.append(step.detail)
    )
    return dataclasses.replace(found, note="; ".join(filter(None, (found.note, *notes))))


def canary(
    agent: Agent, profile: Profile, on_step: OnStep, cancel: Cancel | None = None, wait: Wait | None = None
) -> Canary:
    """A few prompts through the running server, and whether their dumps mean what they should."""

    def work(on_step: OnStep, ticket: Ticket) -> Canary:
        return decode(Canary, fate.act(agent, "canary", ticket, on_step, timeout=REQUEST, wait=wait, cancel=cancel))

    return audit.record(profile, "canary", work, on_step)


def plan(agent: Agent, action: str) -> Plan:
    """What `action` would do now. Changes nothing."""
    return decode(Plan, agent.call("plan", timeout=PATIENT, action=action))


def patch_diff(agent: Agent) -> Plan:
    """The plan whose diff is of interest: to apply the patch; once that is done, to revert it. Changes nothing."""
    apply = plan(agent, "patch.apply")
    return apply if apply.needed else plan(agent, "patch.revert")


def run(agent: Agent, profile: Profile, confirmed: Plan, on_step: OnStep, wait: Wait | None = None) -> Outcome:
    """Run a plan that the operator has seen. Raises ChangedSincePlan when what it rests on has changed.

    wait: for the next link, where this one goes midway; then the outcome is learned from the container (`fate.act`).
    """

    def work(on_step: OnStep, ticket: Ticket) -> Outcome:
        action, basis = confirmed.action, confirmed.basis
        answer = fate.act(agent, "run", ticket, on_step, timeout=ACTION, wait=wait, action=action, basis=basis)
        outcome = decode(Outcome, answer)
        return dataclasses.replace(outcome, checks=gpuholders.explain(agent, profile, outcome.checks))

    return audit.record(profile, confirmed.action, work, on_step, confirmed)


def audit_entries(agent: Agent, last: int) -> Entries:
    """The end of the container's audit log."""
    return decode(Entries, agent.call("audit.show", timeout=PATIENT, last=last))


def audit_chain(agent: Agent) -> ChainReport:
    """Is the container's audit log what was written?"""
    return decode(ChainReport, agent.call("audit.verify", timeout=PATIENT))
