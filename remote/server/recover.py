"""End what stands between the port and a good start: exactly the processes that were confirmed, TERM and then KILL.

Whom to end is the console's plan, made from `suspects.facts`; here each is told by pid and start time, and looked at
again right before each signal.
"""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterable
from typing import Any

from remote import elevated, ports, processes
from remote.processes import Identity, Process
from remote.server import find, proof, record, suspects
from remote.server.suspects import Suspect
from remote.wire.errors import ChangedSincePlan, ServerError
from remote.wire.plan import Check, OnStep, Outcome, StepResult, Verdict
from remote.wire.signals import TITLES, kill
from remote.wire.target import Target

ACTION = "server.recover"
TERM_WAIT = 3.0  # seconds: what is to be recovered from has had its chance to end well
KILL_WAIT = 5.0
DEAF = ("T", "t", "Z", "D")  # states that can't act on TERM


def end(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    """Signal the processes of `basis` and say what a second look sees.

    basis: "processes", [[pid, start_ticks], …], are signalled by this user, "as_root", likewise, by root through sudo.
    Raises ChangedSincePlan when there is one in the way of which the plan did not know ("known", likewise).
    """
    ladder = _Ladder(_identities(basis, "processes"), _identities(basis, "as_root"), step)
    with record.lock(target.port, "is recovering"):
        found = find.find(target)
        known = _agree({*ladder.shown, *_identities(basis, "known")}, suspects.look(target)[0])
        if found.record is not None and found.ours:
            record.mark_stopped(found.record)  # before the signal: a watcher must not take it for a crash
        if ladder.shown:
            ladder.climb()
        checks = (_left(ladder.shown), _port(target, known), _orphans(target, known), proof.gpus_back(found))
        for check in checks:
            step(StepResult(f"Look again: {check.name}", check.verdict is not Verdict.BAD, check.found))
    ok = all(check.verdict is not Verdict.BAD for check in checks)
    summary = f"Port {target.port} is free." if ok else "Not recovered: see what is left, and what ends it."
    return Outcome(ACTION, ok, summary, checks)


def _identities(basis: dict[str, Any], name: str) -> list[Identity]:
    return [Identity(int(pid), int(ticks)) for pid, ticks in basis.get(name, [])]


def _agree(known: set[Identity], now: tuple[Suspect, ...]) -> set[Identity]:
    """Who is no news: the known ones, and children that they have started since."""
    allowed = processes.family(known, processes.table())
    new = processes.survivors(one.process.identity for one in now if one.process.identity not in allowed)
    if new:
        what = ", ".join(f"pid {process.pid} ({process.command[:100]})" for process in new)
        raise ChangedSincePlan(f"processes that the plan did not show: {what}", "Plan the recovery again.")
    return allowed


class _Ladder:
    """TERM, wait, KILL. What is reported as run is what the plan showed, also where some of it had ended by then."""

    def __init__(self, own: list[Identity], as_root: list[Identity], step: OnStep) -> None:
        self.shown = [*own, *as_root]
        self._own = own
        self._as_root = as_root
        self._step = step

    def climb(self) -> None:
        left = self._signal("TERM")
        if any(process.state not in DEAF for process in left):
            _wait(self.shown, TERM_WAIT, self._step)
        if processes.survivors(self.shown):
            self._signal("KILL")
            _wait(self.shown, KILL_WAIT, self._step)

    def _signal(self, name: str) -> list[Process]:
        """Those who were there to be signalled."""
        left = processes.survivors(self.shown)
        if self._own:
            began = time.monotonic()
            sent, problem = _send(self._own, name)
            self._tell(TITLES[name], kill(name, (one.pid for one in self._own)), sent, problem, began)
        if self._as_root:
            began = time.monotonic()
            command = elevated.command(*elevated.signal_request(name, self._as_root))
            sent, problem = _send_as_root(self._as_root, name)
            self._tell(f"{TITLES[name]}, as root", shlex.join(command), sent, problem, began)
        return left

    def _tell(self, title: str, command: str, sent: list[int], problem: str, began: float) -> None:
        reached = f"sent to {_pids(sent)}" if sent else "nobody was left to signal"
        self._step(StepResult(title, not problem, problem or reached, time.monotonic() - began, command))


def _send(identities: list[Identity], name: str) -> tuple[list[int], str]:
    """The pids that were signalled, and why others could not be."""
    answers = [(identity.pid, *_send_one(identity, signal.Signals[f"SIG{name}"])) for identity in identities]
    return [pid for pid, reached, _ in answers if reached], "; ".join(why for _, _, why in answers if why)


def _send_one(identity: Identity, number: signal.Signals) -> tuple[bool, str]:
    try:
        return processes.send(identity, number), ""
    except ServerError as error:
        return False, f"{error.what}. {error.remedy}"


def _send_as_root(identities: list[Identity], name: str) -> tuple[list[int], str]:
    try:
        return elevated.send(identities, name), ""
    except ServerError as error:
        return [], f"{error.what}. {error.remedy}"


def _pids(pids: Iterable[int]) -> str:
    return f"pid {', '.join(map(str, pids))}"


def _wait(shown: list[Identity], seconds: float, step: OnStep) -> None:
    began = time.monotonic()
    left: list[Process] = []
    for left in processes.wait_gone(shown, seconds):
        if left and all(process.state == "D" for process in left):
            break
    detail = f"{len(left)} left: {proof.names(left)}" if left else "all ended"
    step(StepResult("Wait for them", not left, detail, time.monotonic() - began))


def _left(shown: list[Identity]) -> Check:
    left = processes.survivors(shown)
    if not left:
        return Check("processes", Verdict.OK, "all of them have ended" if shown else "none was to be ended")
    return Check("processes", Verdict.BAD, f"left: {proof.names(left)}", _why_not(left) or "Recover again.")


def _why_not(left: list[Process]) -> str:
    """Why processes that were killed live on, and what ends that; empty when nothing is known."""
    waits = ((process.pid, suspects.blocked_in(process.pid)) for process in left)
    blocked = ", ".join(f"pid {pid} ({where})" for pid, where in waits if where)
    if not blocked:
        return ""
    return (
        f"Waiting in the kernel: {blocked}. SIGKILL is pending and takes effect when that wait ends, when the device "
        "or file system answers, or the control group is thawed. Until then nothing ends it: `pct stop` would hang "
        "as well, and only a reboot of the Proxmox host clears it."
    )


def _port(target: Target, known: set[Identity]) -> Check:
    error = ports.bind_error(target.host, target.port)
    if error is None:
        return Check("port", Verdict.OK, f"{target.host}:{target.port} can be bound")
    holders, unseen = suspects.look(target)
    who = [f"pid {one.process.pid} ({one.process.command[:100]}; {one.why})" for one in holders if one.holds]
    who += [f"somebody who can't be seen from here, on {address}" for address in unseen]
    holding = [one for one in holders if one.holds]
    remedy = _why_not([one.process for one in holding]) or _since(holding, known) or "Look at the port again."
    if unseen:
        remedy = "The Proxmox host sees more: give the profile its [proxmox] table, or log in as root."
    elif any(not one.ours for one in holders if one.holds):
        pids = " ".join(f"--including {one.process.pid}" for one in holders if one.holds and not one.ours)
        remedy = f"Who is not ours is ended only by name: hsconsole server recover {pids}"
    return Check("port", Verdict.BAD, f"{error.strerror}: held by {', '.join(who) or 'nobody'}", remedy)


def _since(left: list[Suspect], known: set[Identity]) -> str:
    """What to do about those of ours that have come after the signals; empty when none has."""
    came = [one.info for one in left if one.ours and one.process.identity not in known]
    if not came:
        return ""
    who = ", ".join(f"pid {one.pid} [{one.cgroup or 'no control group'}]" for one in came)
    return f"Come since: {who}. Stop what starts it again, `systemctl status PID` tells, then recover again."


def _orphans(target: Target, known: set[Identity]) -> Check:
    ours = [one for one in suspects.look(target)[0] if one.ours]
    if not ours:
        return Check("orphans", Verdict.OK, "no process of a dead server is left")
    left = [one.process for one in ours]
    remedy = _why_not(left) or _since(ours, known) or "Recover again."
    return Check("orphans", Verdict.BAD, f"left: {proof.names(left)}", remedy)
