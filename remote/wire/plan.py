"""Checks, plans and outcomes: what an action will do, did, and what a second look saw."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Callable


class Verdict(str, enum.Enum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing looked at. found: what was seen. remedy: what to do when the verdict is not OK."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a plan. command: exactly what runs (secrets masked), as a shell would take it; empty for a look.

    Where the agent acts by itself (a signal, a file it replaces) it is the command that does the same.
    """

    title: str
    command: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an action would do now.

    needed: False when everything is already as wanted; then `steps` is empty.
    losses: what can't be undone, a sentence each.
    basis: the facts the plan rests on; `run` takes them again and refuses when they differ.
    diff: unified diff of the files that change, where the action edits files.
    word: what the operator must type to confirm, for what ends more than the action is about; mostly empty.
    """

    action: str
    title: str
    needed: bool
    steps: tuple[Step, ...] = ()
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    basis: dict[str, Any] = dataclasses.field(default_factory=dict)
    diff: str = ""
    word: str = ""


@dataclasses.dataclass(frozen=True)
class StepResult:
    """A step that ended, streamed while the action runs. command: what ran, letter for letter as the plan showed it."""

    title: str
    ok: bool
    detail: str = ""
    seconds: float = 0.0
    command: str = ""


OnStep = Callable[[StepResult], None]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of an action. ok only if every check of the second look agreed."""

    action: str
    ok: bool
    summary: str
    checks: tuple[Check, ...] = ()
