"""Recovering: whatever holds the port is named, and ended where it can be, by whichever way still leads there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from console import audit
from console.config.profile import Profile
from console.errors import ChangedSincePlan, OperatorError, Refused
from console.operations import fate, gpuholders, hostcommands, recovery_words
from console.operations.calls import Agent, server_state
from console.operations.fate import Wait
from console.operations.proxmox import ProxmoxHost, said
from console.operations.recovery_plan import START, STOP, WELL, build
from console.operations.recovery_ways import Ways
from console.operations.recovery_wish import ACTION, RESTART, Wish
from console.ssh.exchange import Ran
from remote.wire.audit import Ticket
from remote.wire.codec import decode
from remote.wire.plan import Check, OnStep, Outcome, Plan, StepResult, Verdict
from remote.wire.server import Phase
from remote.wire.signals import TITLES

INSIDE = 60.0  # seconds without a word from the agent
PATIENCE = {"TERM": 2.0, "KILL": 5.0}
LOOK_EVERY = 0.3
RESTART_LIMIT = max(STOP, START) + 20.0  # of the line, which has a limit of its own
DEFAULT = Wish()
SSHD_FOUND = {
    "listens": "it listens again",
    "deaf": "nobody is accepted there still",
    "absent": "it does not listen",
}


def plan(agent: Agent | None, profile: Profile, wish: Wish = DEFAULT) -> Plan:
    """What a recovery would end now, and why that is thought ours. Changes nothing.

    agent: None when the link is down; then the Proxmox host is the way. Raises Refused, naming the holder and what to
    do, when the default may not end it; LinkError when there is no way to the container.
    """
    if wish.last == RESTART and profile.proxmox is None:
        raise Refused("only the Proxmox host can restart the container", "Add a [proxmox] table to the profile.")
    with Ways(agent, profile) as ways:
        return build(ways.see(restart=wish.last == RESTART), profile, wish)


def run(agent: Agent | None, profile: Profile, confirmed: Plan, on_step: OnStep, wait: Wait | None = None) -> Outcome:
    """Run a plan that the operator has seen. Each process is told by pid and start time right before its signal.

    Raises ChangedSincePlan when there is somebody in the way whom the plan did not know, or the container that it was
    to restart is not the one that ran; Refused, naming who does, when another recovers, starts or stops it right now.
    """

    def work(on_step: OnStep, ticket: Ticket) -> Outcome:
        by_link = confirmed.basis["way"] == "link"  # a link that gave no answer would take its time again
        with Ways(agent if by_link else None, profile, wait) as ways:
            return _carry_out(ways, confirmed.basis, on_step, ticket)

    return audit.record(profile, ACTION, work, on_step, confirmed)


def _carry_out(ways: Ways, basis: dict[str, Any], on_step: OnStep, ticket: Ticket) -> Outcome:
    for line in basis["thaw"]:
        _host_step(ways.host, recovery_words.THAW, line, on_step)
    if basis["whole"] and not (basis["host"] or basis["restart"]):
        return _thawed(ways)
    checks: list[Check] = []
    for where, ladder in ((recovery_words.BY_HOST, basis["host"]), (recovery_words.BY_PCT, basis["pct"])):
        if ladder:
            checks.append(_climb(ways.host, where, ladder, on_step))
    ways.open()
    checks += _end_inside(ways, basis, on_step, ticket)
    if basis["restart"]:
        _same_container(ways, basis["container"])
        checks = _restart(ways, basis["restart"], on_step)
    elif basis["sshd"]:
        checks.append(_restart_sshd(ways, basis["sshd"], on_step))
    checks += _host_truth(ways, checks)
    if ways.agent is not None:
        checks = list(gpuholders.explain(ways.agent, ways.profile, tuple(checks)))
    ok = all(check.verdict is not Verdict.BAD for check in checks)
    port = ways.profile.server.port
    summary = f"Recovered: port {port} is free." if ok else "Not recovered: see what is left, and what ends it."
    return Outcome(ACTION, ok, summary, tuple(checks))


def _thawed(ways: Ways) -> Outcome:
    """A container that was frozen as a whole goes on where it stood: whether its server does is for another look."""
    checks = tuple(_since_thawed(ways))
    ok = all(check.verdict is not Verdict.BAD for check in checks)
    summary = "Thawed: the container runs again." if ok else "Not recovered: see what was found, and what ends it."
    return Outcome(ACTION, ok, summary, checks)


def _since_thawed(ways: Ways) -> Iterator[Check]:
    try:
        frozen = ways.host.look(ways.profile.server.port).frozen
        if frozen:
            remedy = "Somebody on the host freezes it: `lxc-info`, and the tasks of the Proxmox host, tell who."
            yield Check("container", Verdict.BAD, f"it is frozen still: {', '.join(frozen)}", remedy)
            return
        yield Check("container", Verdict.OK, "it runs again")
        ways.open()
        if ways.agent is not None:
            state = server_state(ways.agent)
            verdict = Verdict.OK if state.phase in (*WELL, Phase.STOPPED) else Verdict.WARN
            yield Check("server", verdict, f"{state.phase.value}: {state.detail}", "If it does not answer: recover.")
    except OperatorError as error:  # what was done is told all the same
        yield Check("second look", Verdict.BAD, f"nobody could look: {error.what}", error.remedy)


def _end_inside(ways: Ways, basis: dict[str, Any], on_step: OnStep, ticket: Ticket | None) -> list[Check]:
    """The agent's part, and its second look."""
    if ways.agent is None:
        why = "no agent could be run in the container to look"
        unknown = Check("gpu memory", Verdict.UNKNOWN, why, "Look once the container can be reached: hsconsole status.")
        return [*_unsignalled(ways, basis), unknown]
    whom = {name: basis[name] for name in ("processes", "as_root", "known")}
    answer = fate.act(ways.agent, "recover.end", ticket, on_step, timeout=INSIDE, wait=ways.wait, basis=whom)
    return list(decode(Outcome, answer).checks)


def _unsignalled(ways: Ways, basis: dict[str, Any]) -> Iterator[Check]:
    """Whom the plan named lives on, as there was no agent that would have ended them."""
    named = [pid for pid, _ in (*basis["processes"], *basis["as_root"])]
    if named:
        what, remedy = (ways.no_agent.what, ways.no_agent.remedy) if ways.no_agent else ("there is no link", "")
        found = f"nobody was signalled of pid {', '.join(map(str, named))}: no agent could be run there: {what}"
        yield Check("processes", Verdict.BAD, found, remedy or "Recover again.")


def _climb(host: ProxmoxHost, where: str, ladder: dict[str, str], on_step: OnStep) -> Check:
    """TERM, then KILL, by lines for the host."""
    left: list[str] = []
    for name, patience in PATIENCE.items():
        began = time.monotonic()
        said, problem = _ask(host, ladder[name])
        while left := _left(host, ladder["0"]):
            if time.monotonic() - began > patience:
                break
            time.sleep(LOOK_EVERY)
        detail = problem or "; ".join(f"{who}: {answer}" for who, answer in said.items())
        failed = bool(problem) or any(answer.startswith("failed") for answer in said.values())
        on_step(StepResult(f"{TITLES[name]}, {where}", not failed, detail, time.monotonic() - began, ladder[name]))
        if not left:
            return Check(f"ended {where}", Verdict.OK, "all of them have ended")
    remedy = "A process in state D ends when its wait in the kernel does, or with a reboot of the host."
    return Check(f"ended {where}", Verdict.BAD, f"left: {', '.join(f'pid {who}' for who in left)}", remedy)


def _ask(host: ProxmoxHost, line: str) -> tuple[dict[str, str], str]:
    """What each was answered by pid and start time, and why there is no answer at all."""
    ran = host.run(line)
    found = hostcommands.answers(ran.out.decode("utf-8", "replace"))
    return found, "" if found else f"no answer: {said(ran)}"


def _left(host: ProxmoxHost, line: str) -> list[str]:
    """A zombie holds nothing, unless a thread of it lives: then it is there, and the second look says so."""
    found, problem = _ask(host, line)
    there = [who for who, answer in found.items() if answer.startswith("there") and answer != "there Z"]
    return there or ([f"(not known: {problem})"] if problem else [])


def _host_step(host: ProxmoxHost, title: str, line: str, on_step: OnStep) -> bool:
    """Run a line that says nothing when all is well."""
    began = time.monotonic()
    ran = host.run(line)
    ok = not ran.err.strip()
    on_step(StepResult(title, ok, "" if ok else said(ran), time.monotonic() - began, line))
    return ok


def _same_container(ways: Ways, known: list[Any] | None) -> None:
    """Still the run of the container that the plan is of, as far as the host could tell: else somebody was first."""
    seen = ways.host.look(ways.profile.server.port) if known is not None else None
    if seen is None or [seen.init, seen.namespace] == known:
        return
    vmid, became = ways.host.proxmox.vmid, "was stopped" if seen.init is None else "was started"
    raise ChangedSincePlan(f"container {vmid} {became} since the plan", "Plan the recovery again.")


def _restart(ways: Ways, lines: list[list[str]], on_step: OnStep) -> list[Check]:
    for line, wanted in lines:
        began = time.monotonic()
        ran = ways.host.run(line, RESTART_LIMIT)
        ok = ways.host.becomes(wanted)
        detail = f"it is {wanted}" if ok else f"it is not {wanted}: {said(ran)}"
        on_step(StepResult(recovery_words.RESTART_TITLES[wanted], ok, detail, time.monotonic() - began, line))
        if not ok:
            return [Check("container", Verdict.BAD, f"`{line}` did not end in time or failed: {said(ran)}", _hung(ran))]
    return [Check("container", Verdict.OK, f"container {ways.host.proxmox.vmid} runs again"), *_look_inside(ways)]


def _hung(ran: Ran) -> str:
    if "lock" in said(ran):
        return "Another task of the Proxmox host has the container, a backup perhaps: wait for it, or end that task."
    return "A process that waits in the kernel keeps it from stopping: only a reboot of the Proxmox host ends that."


def _look_inside(ways: Ways) -> list[Check]:
    """A second look after a restart, by an agent of its own."""
    ways.agent = None
    ways.open()
    nobody: dict[str, Any] = {"processes": [], "as_root": [], "known": []}
    try:
        return _end_inside(ways, nobody, lambda _: None, None)
    except OperatorError as error:  # somebody new is there already
        return [Check("inside", Verdict.WARN, error.what, error.remedy)]


def _restart_sshd(ways: Ways, line: str, on_step: OnStep) -> Check:
    began = time.monotonic()
    try:
        answer = ways.again(line)
        ok, found = answer == "listens", SSHD_FOUND.get(answer, f"nobody could look: {answer}")
    except OperatorError as error:
        ok, found = False, error.what
    on_step(StepResult(recovery_words.SSHD, ok, found, time.monotonic() - began, line))
    remedy = "See `journalctl -u ssh` there; one that hangs keeps the port until it is ended."
    return Check("sshd", Verdict.OK if ok else Verdict.BAD, found, "" if ok else remedy)


def _host_truth(ways: Ways, checks: list[Check]) -> list[Check]:
    """What the host sees of the port, where inside could not look, or did not see it free."""
    inside = next((check for check in checks if check.name == "port"), None)
    if ways.profile.proxmox is None or (inside is not None and inside.verdict is Verdict.OK):
        return []
    try:
        seen = ways.host.look(ways.profile.server.port)
    except OperatorError as error:  # what was done is told all the same
        return [Check("port by the host", Verdict.BAD, f"nobody could look: {error.what}", error.remedy)]
    if not seen.listeners:
        return [Check("port by the host", Verdict.OK, "nobody listens there")] if inside is None else []
    holders = [one for one in seen.processes if one.holds]
    who = "; ".join(f"host pid {one.pid} (state {one.state}): {one.command[:100]}" for one in holders) or "nobody"
    remedy = "Recover again."
    for one in holders:
        if one.waits:
            until = "it ends when that wait does, or with a reboot of the host"
            remedy = f"Host pid {one.pid} waits in the kernel ({one.waits}): {until}."
    return [Check("port by the host", Verdict.BAD, f"held on {', '.join(seen.listeners)} by {who}", remedy)]
