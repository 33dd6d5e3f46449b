"""Stop the server: TERM to its parent, KILL to what is left, each process checked right before; then the proof.

Signalled are the processes that the plan showed, and descendants of theirs that have started since, as the plan says.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterable
from typing import Any, Optional

from remote import ports, processes
from remote.processes import Identity, Process
from remote.server import ask, find, log, progress, proof, record
from remote.server.find import Found, Member
from remote.wire import amounts
from remote.wire.errors import ChangedSincePlan
from remote.wire.plan import OnStep, Outcome, Plan, Step, StepResult, Verdict
from remote.wire.signals import kill
from remote.wire.target import Target

ACTION = "server.stop"
TERM_WAIT = 30.0  # seconds; SGLang lets running requests end and looks every 5 s
ORPHAN_WAIT = 5.0
KILL_WAIT = 15.0
REPORT_EVERY = 5.0
DEAD_STATES = ("T", "t", "Z")  # of a parent that can't act on TERM


def plan(target: Target) -> Plan:
    """Whom a stop would signal, and what is lost. Not needed when nothing of the server is left."""
    found = find.settled(target)
    if not found.members:
        return Plan(ACTION, f"No server runs on port {target.port}", needed=False, notes=_port_note(target))
    return Plan(
        action=ACTION,
        title=f"Stop SGLang on port {target.port}" if found.parent else "End what a dead server left",
        needed=True,
        steps=_steps(found, target),
        losses=losses(found, target),
        notes=_notes(found),
        basis={"processes": [list(member.process.identity) for member in found.members]},
    )


def stop(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    """Signal the processes of the plan, and prove that they are gone."""
    with record.lock(target.port, "is stopping"):
        shown = [Identity(int(pid), int(ticks)) for pid, ticks in basis.get("processes", [])]
        found = _agreed(target, set(shown))
        if found.record is not None and found.ours:
            record.mark_stopped(found.record)  # before the signal: a watcher must not take it for a crash
        end = _Ladder(found, shown, step)
        end.climb()
        checks = (proof.gone(end.left(), target), proof.port_free(target), proof.gpus_back(found))
        for check in checks:
            step(StepResult(f"Look again: {check.name}", check.verdict is not Verdict.BAD, check.found))
    ok = all(check.verdict is not Verdict.BAD for check in checks)
    return Outcome(ACTION, ok, "Stopped." if ok else "Not stopped: see what is left.", checks)


def _steps(found: Found, target: Target) -> tuple[Step, ...]:
    first = _first(found)
    listing = tuple(Step(_line(member)) for member in found.members)
    if found.parent is not None and found.parent.state in DEAD_STATES:
        wait = Step(f"No wait: pid {found.parent.pid} (state {found.parent.state}) can't act on it")
    else:
        wait = Step(f"Wait at most {TERM_WAIT if found.parent else ORPHAN_WAIT:.0f} s for it to end by itself")
    return (
        *listing,
        Step("Ask it to end", kill("TERM", (process.pid for process in first))),
        wait,
        Step("Kill what is left of these", kill("KILL", (member.process.pid for member in found.members))),
        Step(f"Look again: no process, port {target.port} free, GPU memory back"),
    )


def _line(member: Member) -> str:
    process = member.process
    return f"pid {process.pid}, {amounts.age(process.age)} old: {process.command[:300]} ({member.why})"


def _first(found: Found) -> list[Process]:
    """Who is asked to end: the parent, which ends its children; without one, each."""
    return [found.parent] if found.parent else [member.process for member in found.members]


def losses(found: Found, target: Target) -> tuple[str, ...]:
    parent = found.parent
    if parent is None:
        return ()
    lost = []
    path = found.record.log if found.record and found.ours else processes.output_file(parent.pid)
    took = _load_seconds(path, parent)
    if took is not None:
        lost.append(f"The load: it took {amounts.age(took)}, and the next start takes it again.")
    else:
        lost.append(f"The load so far: {amounts.age(parent.age)}.")
    requests = (
        ask.Server(parent, target, found.record).loads()
        if took is not None and parent.state not in DEAD_STATES
        else None
    )
    if requests and sum(requests):
        lost.append(f"{requests[0]} running and {requests[1]} queued requests.")
    return tuple(lost)


def _load_seconds(path: Optional[str], parent: Process) -> Optional[float]:
    if path is None:
        return None
    try:
        return progress.load_seconds(log.first_lines(path), time.time() - parent.age)
    except OSError:
        return None


def _notes(found: Found) -> tuple[str, ...]:
    notes = ["Descendants of these processes that start before the stop are ended with them; nothing else is."]
    if not found.ours:
        notes.insert(0, "hsconsole did not start these processes: be sure that nobody else needs them.")
    return tuple(notes)


def _port_note(target: Target) -> tuple[str, ...]:
    error = ports.bind_error(target.host, target.port)
    return (f"Port {target.port} is not free all the same: {error.strerror}",) if error else ()


def _agreed(target: Target, shown: set[Identity]) -> Found:
    """Those of the shown that are there, and descendants of theirs. Orphans of another server are no matter of a stop.

    Raises ChangedSincePlan when there is another process that was neither shown nor descends from one that was.
    """
    found, strangers = _look(target, shown)
    if strangers:  # one that has ended by now may have hidden whom it stood before
        found, strangers = _look(target, shown)
    new = processes.survivors(strangers)
    if new:
        what = ", ".join(f"pid {process.pid} ({process.command[:100]})" for process in new)
        raise ChangedSincePlan(f"processes that the plan did not show: {what}", "Plan the stop again.")
    if not found.members:
        raise ChangedSincePlan("the server has ended since", "There is nothing to stop.")
    return found


def _look(target: Target, shown: set[Identity]) -> tuple[Found, list[Identity]]:
    """What is found of `shown` and their descendants; and who else is of this server."""
    found = find.find(target)
    allowed = processes.family(shown, processes.table())
    members = tuple(one for one in found.members if one.process.identity in allowed)
    others = [one for one in found.members if one.process.identity not in allowed and one.why != find.ORPHAN]
    parent = found.parent if found.parent is not None and found.parent.identity in allowed else None
    return dataclasses.replace(found, parent=parent, members=members), [one.process.identity for one in others]


class _Ladder:
    """TERM, wait, KILL, over the shown processes and what descends from them."""

    def __init__(self, found: Found, shown: list[Identity], step: OnStep) -> None:
        self.found = found
        self.known = {member.process.identity for member in found.members} | set(shown)
        self._shown = shown
        self._step = step

    def climb(self) -> None:
        first = _first(self.found)
        sent = self._signal((process.identity for process in first), signal.SIGTERM)
        command = kill("TERM", (process.pid for process in first))
        self._step(StepResult("Ask it to end", True, f"TERM to {_pids(sent)}", command=command))
        if self.found.parent is None or self.found.parent.state not in DEAD_STATES:
            self._wait(TERM_WAIT if self.found.parent else ORPHAN_WAIT)
        left = self.left()
        if left:
            sent = self._signal((process.identity for process in left), signal.SIGKILL)
            command = kill("KILL", (identity.pid for identity in self._shown))
            self._step(StepResult("Kill what is left of these", True, f"KILL to {_pids(sent)}", command=command))
            self._wait(KILL_WAIT)

    def left(self) -> list[Process]:
        """Those not ended yet, with descendants that have started since."""
        self.known = processes.family(self.known, processes.table())
        return processes.survivors(self.known)

    def _signal(self, identities: Iterable[Identity], number: signal.Signals) -> list[int]:
        return [identity.pid for identity in identities if processes.send(identity, number)]

    def _wait(self, seconds: float) -> None:
        """Until nobody is left, at most `seconds`; only a little for children once their parent has ended."""
        began = said = time.monotonic()
        until = began + seconds
        parent = self.found.parent
        while left := self.left():
            now = time.monotonic()
            if parent is not None and parent.pid not in {process.pid for process in left}:
                until, parent = min(until, now + ORPHAN_WAIT), None
            if now >= until:
                break
            if now - said >= REPORT_EVERY:
                said = now
                self._step(StepResult("Wait", True, f"{len(left)} left: {proof.names(left)}", said - began))
            time.sleep(0.2)
        detail = f"{len(left)} left: {proof.names(left)}" if left else "all ended"
        self._step(StepResult("Wait", not left, detail, time.monotonic() - began))


def _pids(pids: list[int]) -> str:
    return f"pid {', '.join(map(str, pids))}" if pids else "nobody: they had ended"
