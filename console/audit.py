"""The laptop's audit log: every action recorded before it begins and after it ended, whichever face asked for it.

A log that can't be written stops no action, for a stop or a recovery must not wait for a full disk; it is said instead,
as a failed step of the action itself.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from console.config.profile import Profile
from console.errors import OperatorError, Refused
from remote.wire import journal
from remote.wire.audit import AuditError, Entry, Ticket, new_id, now, told
from remote.wire.masking import mask_text, secrets_of
from remote.wire.plan import OnStep, Plan, StepResult

T = TypeVar("T")
Work = Callable[[OnStep, Ticket], T]

TITLE = "Audit log of this laptop"


def path_of(profile_name: str) -> Path:
    """`HSCONSOLE_STATE_DIR` or the platform's own place, `audit` in it, and a file for each profile."""
    base = os.environ.get("HSCONSOLE_STATE_DIR") or platformdirs.user_state_dir("hsconsole", appauthor=False)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", profile_name) or "_"
    return Path(base) / "audit" / f"{name}.jsonl"


def operator() -> str:
    """Who acts, and on which machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def refuse_read_only(profile: Profile) -> None:
    """Raise Refused where a profile allows no action."""
    if profile.read_only:
        raise Refused(f"profile {profile.name!r} is read-only", "Set read_only = false in its file to allow actions.")


def record(profile: Profile, action: str, work: Work[T], on_step: OnStep, plan: Plan | None = None) -> T:
    """Do `work(on_step, ticket)` with a record before it and one after it, however it ends; returns what it returns.

    work: gives its on_step each step, and may hand the ticket to the agent, for the container's log.
    on_step: gets the steps, and one that failed for each record that can't be written.
    plan: what the operator has seen and confirmed.

    Raises Refused for a read-only profile: what leaves a trace passes here, whatever face asked for it.
    """
    refuse_read_only(profile)
    log = _Log(profile, action, on_step)
    steps: list[StepResult] = []

    def keep(step: StepResult) -> None:
        steps.append(step)
        on_step(step)

    planned = [step for step in plan.steps if step.command] if plan else []
    ticket = Ticket(log.id, operator(), profile.name, tuple(log.mask(step.command) for step in planned))
    log.write("begin", _told(plan) if plan else {})
    began = time.monotonic()
    try:
        result = work(keep, ticket)
    except BaseException as error:
        log.write("end", {"ok": False, "error": _error(error), "steps": steps, "seconds": time.monotonic() - began})
        raise
    log.write("end", {**_ended(result), "steps": steps, "seconds": time.monotonic() - began})
    return result


class _Log:
    """One action's records."""

    def __init__(self, profile: Profile, action: str, on_step: OnStep) -> None:
        self.id = new_id()
        self._profile = profile
        self._action = action
        self._on_step = on_step
        self._secrets = secrets_of(profile.server.flags, profile.server.env)

    def write(self, kind: str, data: dict[str, Any]) -> None:
        entry = Entry(
            kind,
            now(),
            id=self.id,
            action=self._action,
            who=operator(),
            profile=self._profile.name,
            data=told(data, self._secrets),
        )
        try:
            journal.append(str(path_of(self._profile.name)), entry)
        except AuditError as error:
            what = f"this action's {kind} could NOT be recorded: {error.what}"
            self._on_step(StepResult(TITLE, ok=False, detail=what))

    def mask(self, text: str) -> str:
        return mask_text(text, self._secrets)


def _told(plan: Plan) -> dict[str, Any]:
    """What the operator has seen; of a diff only the plan's basis tells, by its hashes."""
    return {
        "title": plan.title,
        "steps": plan.steps,
        "losses": plan.losses,
        "notes": plan.notes,
        "basis": plan.basis,
        **({"word": plan.word} if plan.word else {}),
    }


def _ended(result: Any) -> dict[str, Any]:
    """An outcome, or what a test, a canary or a verification found."""
    return {"ok": result.ok, "result": result}


def _error(error: BaseException) -> dict[str, str]:
    if isinstance(error, OperatorError):
        return {"id": error.id, "title": error.title, "what": error.what}
    return {"id": "fault", "title": type(error).__name__, "what": str(error)}
