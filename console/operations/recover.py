"""Recovering: whatever holds the port is named, and ended where it can be, by whichever way still leads there."""

from __future__ import annotations

import shlex
import time
from typing import Any

from console import audit
from console.config.profile import Profile
from console.errors import Refused
from console.operations import gpuholders, hostview
from console.operations.calls import Agent, OnStep, refuse_read_only
from console.operations.proxmox import ProxmoxHost
from console.operations.recovery_plan import ACTION, RESTART, Wish, build
from console.operations.recovery_ways import Ways
from remote.wire.audit import Ticket
from remote.wire.codec import decode
from remote.wire.plan import Check, Outcome, Plan, StepResult, Verdict

INSIDE = 60.0  # seconds without a word from the agent
TERM_WAIT, KILL_WAIT = 2.0, 5.0
LOOK_EVERY = 0.3
DEFAULT = Wish()


def plan(agent: Agent | None, profile: Profile, wish: Wish = DEFAULT) -> Plan:
    """What a recovery would end now, and why that is thought ours. Changes nothing.

    agent: None when the link is down; then the Proxmox host is the way. Raises Refused, naming the holder and what to
    do, when the default may not end it; LinkError when there is no way to the container.
    """
    if wish.last == RESTART and profile.proxmox is None:
        raise Refused("only the Proxmox host can restart the container", "Add a [proxmox] table to the profile.")
    with Ways(agent, profile) as ways:
        return build(ways.see(), profile, wish)


def run(agent: Agent | None, profile: Profile, confirmed: Plan, on_step: OnStep) -> Outcome:
    """Run a plan that the operator has seen. Each process is told by pid and start time right before its signal.

    Raises ChangedSincePlan when there is somebody in the way whom the plan did not know.
    """
    refuse_read_only(profile)

    def work(on_step: OnStep, ticket: Ticket) -> Outcome:
        return _carry_out(Ways(agent, profile), confirmed.basis, on_step, ticket)

    return audit.record(profile, ACTION, work, on_step, confirmed)


def _carry_out(closed: Ways, basis: dict[str, Any], on_step: OnStep, ticket: Ticket) -> Outcome:
    with closed as ways:
        ways.open()
        checks: list[Check] = []
        for path in basis["thaw"]:
            ran = ways.host.thaw(path)
            on_step(StepResult("Thaw their control group", not ran.err, f"echo THAWED > {path}"))
        if basis["host"]:
            checks.append(_end_from_host(ways.host, basis["host"], on_step))
        checks += _end_inside(ways, basis, on_step, ticket)
        if basis["last"] == RESTART:
            checks = [_restart(ways.host, on_step)]
        elif basis["sshd"]:
            checks.append(_restart_sshd(ways, on_step))
        checks += _host_truth(ways, checks)
        if ways.agent is not None:
            checks = list(gpuholders.explain(ways.agent, ways.profile, tuple(checks)))
    ok = all(check.verdict is not Verdict.BAD for check in checks)
    port = closed.profile.server.port
    summary = f"Recovered: port {port} is free." if ok else "Not recovered: see what is left, and what ends it."
    return Outcome(ACTION, ok, summary, tuple(checks))


def _end_inside(ways: Ways, basis: dict[str, Any], on_step: OnStep, ticket: Ticket) -> list[Check]:
    if ways.agent is None:
        return []
    wanted = {"processes": basis["processes"], "known": basis["known"]}
    outcome = _ask_to_end(ways.agent, wanted, on_step, ticket)
    if not outcome.ok and basis["by_pct"] and _kill_by_pct(ways, basis["processes"], on_step):
        time.sleep(LOOK_EVERY)
        outcome = _ask_to_end(ways.agent, {"processes": [], "known": basis["known"]}, on_step, ticket)
    return list(outcome.checks)


def _ask_to_end(agent: Agent, basis: dict[str, Any], on_step: OnStep, ticket: Ticket) -> Outcome:
    answer = agent.call(
        "recover.end",
        timeout=INSIDE,
        on_event=lambda event: on_step(decode(StepResult, event)),
        basis=basis,
        ticket=ticket,
    )
    return decode(Outcome, answer)


def _kill_by_pct(ways: Ways, identities: list[list[int]], on_step: OnStep) -> bool:
    """As root of the container, through the host: for a user of the container who may not signal them."""
    sent = False
    for pid, ticks in identities:
        mark = hostview.new_mark()
        ran = ways.host.execute(*shlex.split(hostview.signal_command(pid, ticks, "KILL", mark)))
        answer = ran.out.decode("utf-8", "replace").partition(f"{mark} ")[2].strip()
        if answer != "gone":
            sent = sent or answer == "sent"
            detail = f"pct exec {ways.host.proxmox.vmid} --keep-env=0 -- kill -KILL {pid}: {answer or 'no answer'}"
            on_step(StepResult("Kill through the Proxmox host", answer == "sent", detail))
    return sent


def _end_from_host(host: ProxmoxHost, identities: list[list[int]], on_step: OnStep) -> Check:
    """TERM, then KILL, by the host's pids."""
    left = [(int(pid), int(ticks)) for pid, ticks in identities]
    for name, patience in (("TERM", TERM_WAIT), ("KILL", KILL_WAIT)):
        began = time.monotonic()
        said = [f"{pid}: {host.signal(pid, ticks, name)}" for pid, ticks in left]
        while left and time.monotonic() - began < patience:
            left = [one for one in left if _is_there(host, *one)]
            if left:
                time.sleep(LOOK_EVERY)
        detail = f"kill -{name} on the host: {'; '.join(said)}"
        on_step(StepResult("End them from the Proxmox host", not left, detail, time.monotonic() - began))
        if not left:
            return Check("host processes", Verdict.OK, "all of them have ended")
    pids = ", ".join(f"host pid {pid}" for pid, _ in left)
    remedy = "A process in state D ends when its wait in the kernel does, or with a reboot of the host."
    return Check("host processes", Verdict.BAD, f"left: {pids}", remedy)


def _is_there(host: ProxmoxHost, pid: int, ticks: int) -> bool:
    """A zombie holds nothing, unless a thread of it lives: then it is there, and the second look says so."""
    answer = host.signal(pid, ticks, "0")
    return answer.startswith("there") and answer != "there Z"


def _restart(host: ProxmoxHost, on_step: OnStep) -> Check:
    began = time.monotonic()
    ok, detail = host.restart()
    on_step(StepResult("Restart the container", ok, detail, time.monotonic() - began))
    remedy = "A process that waits in the kernel keeps it from stopping: only a reboot of the Proxmox host ends that."
    return Check("container", Verdict.OK if ok else Verdict.BAD, detail, "" if ok else remedy)


def _restart_sshd(ways: Ways, on_step: OnStep) -> Check:
    began = time.monotonic()
    ok, command = ways.restart_sshd()
    on_step(StepResult("Start the container's sshd again", ok, command, time.monotonic() - began))
    found = "it listens again" if ok else "it does not listen"
    return Check("sshd", Verdict.OK if ok else Verdict.BAD, found, "" if ok else "See `journalctl -u ssh` there.")


def _host_truth(ways: Ways, checks: list[Check]) -> list[Check]:
    """What the host sees of the port, where inside could not look, or did not see it free."""
    inside = next((check for check in checks if check.name == "port"), None)
    if ways.profile.proxmox is None or (inside is not None and inside.verdict is Verdict.OK):
        return []
    seen = ways.host.look(ways.profile.server.port)
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
