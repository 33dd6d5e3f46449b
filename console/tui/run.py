"""An action under way, or its end: what the run page shows."""

from __future__ import annotations

import dataclasses
from typing import Literal

from console.cancel import Cancel
from console.errors import OperatorError
from console.operations.fate import Wait
from console.operations.verdicts import CANCELLED, NAMES, WORDS, besides, tested
from remote.wire.dumps import Canary, DumpTest
from remote.wire.plan import Check, Outcome, Step, StepResult, Verdict


@dataclasses.dataclass
class Run:
    """planned: the plan's steps, empty where there was no plan. Times are monotonic seconds.

    steps: appended to by the thread that waits for the answer; all else is the UI thread's.
    cancel: ends it early, where it can be ended so. wait: for the next link, where it lost its own.
    """

    label: str
    title: str
    started: float
    planned: tuple[Step, ...] = ()
    steps: list[StepResult] = dataclasses.field(default_factory=list)
    ended: float | None = None
    result: Outcome | DumpTest | Canary | None = None
    error: OperatorError | None = None
    action: str = ""
    cancel: Cancel | None = None
    wait: Wait = dataclasses.field(default_factory=lambda: Wait(None))

    @property
    def waiting(self) -> tuple[Step, ...]:
        """Planned steps still to come; the first of them is under way. What stands before one that ended is past."""
        done = {step.title for step in self.steps}
        past = max((i for i, step in enumerate(self.planned, 1) if step.title in done), default=0)
        return self.planned[past:] if self.ended is None else ()

    @property
    def ok(self) -> bool:
        return self.result is not None and self.result.ok

    @property
    def severity(self) -> Literal["information", "warning", "error"]:
        """Of telling its end. A canary that could not look at everything found nothing wrong."""
        if self.ok:
            return "information"
        doubt = isinstance(self.result, Canary) and self.result.verdict in (Verdict.UNKNOWN, Verdict.WARN)
        return "warning" if doubt else "error"

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.result.checks if self.result is not None else ()

    @property
    def besides(self) -> tuple[StepResult, ...]:
        return besides(self.steps, self.checks)

    @property
    def summary(self) -> str:
        if self.error is not None:
            return f"{self.error.title}: {self.error.what}"
        if isinstance(self.result, Outcome):
            return self.result.summary
        if isinstance(self.result, Canary) and self.result.stopped:
            return CANCELLED
        if isinstance(self.result, Canary):
            return f"{NAMES[self.result.verdict]}: {WORDS[self.result.verdict]}"
        if isinstance(self.result, DumpTest):
            return tested(self.result)
        return "running"

    def stop(self) -> bool:
        """Ask it to end; False when it can't be asked, has ended, or was asked before."""
        return self.cancel is not None and self.ended is None and self.cancel.ask()
