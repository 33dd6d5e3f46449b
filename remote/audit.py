"""The container's audit log: what each operator's actions did here, so that two laptops' actions meet in one place."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any, Callable, Optional, TypeVar

from remote import processes
from remote.server.record import acting_for, boot_id, who
from remote.statedir import state_dir
from remote.wire import chain, journal
from remote.wire.audit import Became, ChainReport, Entries, Entry, Fate, Ticket, new_id, now, told
from remote.wire.codec import decode
from remote.wire.errors import ErrorReport, OperatorError, Refused
from remote.wire.masking import secrets_of
from remote.wire.plan import StepResult
from remote.wire.target import Target

T = TypeVar("T")
Emit = Callable[[Any], None]

TITLE = "Audit log of the container"
_under_way: set[str] = set()  # ids of what this agent does


def path() -> str:
    return os.path.join(state_dir(), "audit.jsonl")


def show(last: int) -> Entries:
    return chain.last(path(), last)


def verify() -> ChainReport:
    return chain.verify(path())


def fate(ident: str) -> Fate:
    """What became of the action of that ticket. Raises AuditError when the log can't tell.

    One that is not on record is forbidden, by a line of its own: a call that comes late over a line that was dead must
    not begin after its operator was told that it never did.
    """
    entries = chain.about(path(), ident)
    if not entries:
        journal.append(path(), Entry("void", now(), id=ident, who=who()))
        entries = chain.about(path(), ident)
    if entries[0].kind == "void":
        return Fate(Became.NEVER)
    if len(entries) == 1 and not _is_at_work(entries[0]):
        entries = chain.about(path(), ident)  # it may have ended in between
        if len(entries) == 1:
            return Fate(Became.CUT_OFF, entries[0].at)
    return _ended(entries) if len(entries) > 1 else Fate(Became.RUNNING, entries[0].at)


def _is_at_work(begin: Entry) -> bool:
    """Does the agent that began it live, and, as far as that is this one, do it still?"""
    by = begin.data.get("agent")
    if not isinstance(by, dict) or by.get("boot_id") != boot_id():
        return False
    process = processes.read(by.get("pid", 0))
    if process is None or process.start_ticks != by.get("start_ticks"):
        return False
    return process.pid != os.getpid() or begin.id in _under_way


def _ended(entries: list[Entry]) -> Fate:
    data = entries[-1].data
    steps = tuple(decode(StepResult, step) for step in data.get("steps", ()))
    error = decode(ErrorReport, data["error"]) if "error" in data else None
    return Fate(Became.ENDED, entries[0].at, steps, data.get("result"), error)


def record(
    target: Target,
    action: str,
    ticket: Optional[dict[str, Any]],
    emit: Emit,
    work: Callable[[Emit], T],
    basis: Optional[dict[str, Any]] = None,
) -> T:
    """Do `work(emit)` with a record before and after it; returns what it returns.

    ticket: the console's, encoded; None from one that sends none. A record that can't be written stops nothing, it is
    emitted as a failed step.
    """
    log = _Log(target, action, decode(Ticket, ticket) if ticket is not None else None, emit)
    steps: list[StepResult] = []

    def keep(event: Any) -> None:
        if isinstance(event, StepResult):
            steps.append(event)
        emit(event)

    with log.under_way():
        return _recorded(log, steps, lambda: work(keep), basis)


def _recorded(log: _Log, steps: list[StepResult], work: Callable[[], T], basis: Optional[dict[str, Any]]) -> T:
    log.write("begin", {"basis": basis or {}, "agent": _self()})
    began = time.monotonic()
    try:
        log.refuse_void()
        with acting_for(log.operator):
            result = work()
    except BaseException as error:
        report = error.report() if isinstance(error, OperatorError) else _fault(error)
        log.write("end", {"ok": False, "error": report, "steps": steps, "seconds": time.monotonic() - began})
        raise
    ended = {"ok": getattr(result, "ok", None), "result": result, "steps": steps}
    log.write("end", {**ended, "seconds": time.monotonic() - began})
    return result


def _self() -> dict[str, Any]:
    own = processes.read(os.getpid())
    return {"pid": os.getpid(), "start_ticks": own.start_ticks if own else 0, "boot_id": boot_id()}


def _fault(error: BaseException) -> ErrorReport:
    return ErrorReport("agent.fault", "The agent failed", repr(error), "Please report this.")


class _Log:
    """One action's records."""

    def __init__(self, target: Target, action: str, ticket: Optional[Ticket], emit: Emit) -> None:
        self._ticket = ticket or Ticket(new_id(), "", "")
        self._action = action
        self._emit = emit
        self._secrets = secrets_of(target.flags, target.env)

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Until its end is on record, or could not be."""
        _under_way.add(self._ticket.id)
        try:
            yield
        finally:
            _under_way.discard(self._ticket.id)

    @property
    def operator(self) -> str:
        return self._ticket.operator

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """The operator is whom the console names; `who` is what this side knows by itself."""
        ticket = self._ticket
        if kind == "begin":
            data = {"operator": ticket.operator, "commands": ticket.commands, **data}
        entry = Entry(
            kind,
            now(),
            id=ticket.id,
            action=self._action,
            who=who(),
            profile=ticket.profile,
            data=told(data, self._secrets),
        )
        try:
            journal.append(path(), entry)
        except OperatorError as error:  # also when there is no place for any record
            what = f"this action's {kind} could NOT be recorded: {error.what}"
            self._emit(StepResult(TITLE, ok=False, detail=what))

    def refuse_void(self) -> None:
        """Raise Refused when this action was forbidden before it began: its operator was told that it never did."""
        try:
            first = next(iter(chain.about(path(), self._ticket.id)), None)
        except OperatorError:
            return  # as it is with a log that can't be written
        if first is not None and first.kind == "void":
            raise Refused("it came too late: it was said to have never begun", "Ask for it again.")
