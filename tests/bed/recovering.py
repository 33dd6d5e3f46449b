"""A recovery as an operator has it done: look, confirm, run; with everything that was said on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator

from console.client import connect
from console.config.profile import Profile
from console.errors import LinkError
from console.operations import recover
from console.operations.calls import Agent
from console.operations.recovery_plan import Wish
from remote.wire.plan import Outcome, Plan, StepResult, Verdict


@dataclasses.dataclass
class Recovery:
    """seconds: from the call to the end of the run."""

    plan: Plan
    outcome: Outcome | None
    steps: list[StepResult]
    seconds: float

    @property
    def ok(self) -> bool:
        return self.outcome is not None and self.outcome.ok

    @property
    def planned(self) -> str:
        steps = (f"{step.title}\n{step.command}" for step in self.plan.steps)
        return "\n".join((self.plan.title, *steps, *self.plan.losses, *self.plan.notes))

    @property
    def ran(self) -> str:
        return "\n".join(f"{step.title}: {step.detail}" for step in self.steps)

    @property
    def truth(self) -> str:
        """What the checks that are not well say, and what to do about it."""
        checks = self.outcome.checks if self.outcome else ()
        return "\n".join(f"{c.name}: {c.found}\n{c.remedy}" for c in checks if c.verdict is Verdict.BAD)


@contextlib.contextmanager
def agent_of(profile: Profile) -> Iterator[Agent | None]:
    """A live agent, or None when the container's sshd does not answer."""
    try:
        agent = connect(profile)
    except LinkError:
        yield None
        return
    try:
        yield agent
    finally:
        agent.close()


def recovery(profile: Profile, wish: Wish | None = None) -> Recovery:
    """Plan and run at once. Raises what the plan raises."""
    steps: list[StepResult] = []
    with agent_of(profile) as agent:
        began = time.monotonic()
        plan = recover.plan(agent, profile, wish or Wish())
        outcome = recover.run(agent, profile, plan, steps.append) if plan.needed else None
        return Recovery(plan, outcome, steps, time.monotonic() - began)
