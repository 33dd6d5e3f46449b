"""The container's audit log: what each operator's actions did here, so that two laptops' actions meet in one place."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Optional, TypeVar

from remote.server.record import who
from remote.statedir import state_dir
from remote.wire import chain, journal
from remote.wire.audit import ChainReport, Entries, Entry, Ticket, bounded, new_id, now
from remote.wire.codec import decode, encode
from remote.wire.errors import OperatorError
from remote.wire.masking import mask_json, secrets_of
from remote.wire.plan import StepResult
from remote.wire.target import Target

T = TypeVar("T")
Emit = Callable[[Any], None]

TITLE = "Audit log of the container"


def path() -> str:
    return os.path.join(state_dir(), "audit.jsonl")


def show(last: int) -> Entries:
    return chain.last(path(), last)


def verify() -> ChainReport:
    return chain.verify(path())


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

    log.write("begin", {"basis": basis or {}})
    began = time.monotonic()
    try:
        result = work(keep)
    except BaseException as error:
        what = {"id": error.id, "what": error.what} if isinstance(error, OperatorError) else {"what": repr(error)}
        log.write("end", {"ok": False, "error": what, "steps": steps, "seconds": time.monotonic() - began})
        raise
    ended = {"ok": getattr(result, "ok", None), "result": result, "steps": steps}
    log.write("end", {**ended, "seconds": time.monotonic() - began})
    return result


class _Log:
    """One action's records."""

    def __init__(self, target: Target, action: str, ticket: Optional[Ticket], emit: Emit) -> None:
        self._ticket = ticket or Ticket(new_id(), "", "")
        self._action = action
        self._emit = emit
        self._secrets = secrets_of(target.flags, target.env)

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """The operator is whom the console names; `who` is what this side knows by itself."""
        ticket = self._ticket
        if kind == "begin":
            data = {"operator": ticket.operator, "commands": ticket.commands, **data}
        told = bounded(mask_json(encode(data), self._secrets))
        entry = Entry(kind, now(), id=ticket.id, action=self._action, who=who(), profile=ticket.profile, data=told)
        try:
            journal.append(path(), entry)
        except OperatorError as error:  # also when there is no place for any record
            what = f"this action's {kind} could NOT be recorded: {error.what}"
            self._emit(StepResult(TITLE, ok=False, detail=what))
