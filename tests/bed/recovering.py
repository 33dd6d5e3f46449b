"""A recovery as an operator has it done: look, confirm, run; with everything that was said on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from console.client import connect
from console.config.profile import Profile
from console.errors import LinkError
from console.operations import recover
from console.operations.calls import Agent
from console.operations.proxmox import ProxmoxHost
from console.operations.recovery_wish import Wish
from console.ssh.exchange import Ran
from remote.wire.plan import Outcome, Plan, StepResult, Verdict

# what the host is asked, and changes nothing: each script that looks, the signal 0, and these commands
LOOK = re.compile(
    r"^(sudo -n )?(id -u|-l pct |pct status |pct exec \d+ --keep-env=0 -- sh -c '(cat /etc/ssh|for wait in 0 0\.5; do)"
    r"|sh -c '# Put before the scripts that look)| hsconsole 0 [\d: ]+$"
)


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
        return "\n".join(f"{step.title}: {step.command} {step.detail}" for step in self.steps)

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
        with lines_of_the_host() as lines:
            outcome = recover.run(agent, profile, plan, steps.append) if plan.needed else None
        done = Recovery(plan, outcome, steps, time.monotonic() - began)
    if outcome is not None:  # docs/recovery.md has them, by `pytest -rP`
        print(f"{done.seconds:.1f} s from the call to the end of the second look")
    assert_as_shown(done, lines)
    return done


@contextlib.contextmanager
def lines_of_the_host() -> Iterator[list[str]]:
    """Every line that a Proxmox host is given, just as its sshd gets it."""
    lines: list[str] = []
    run = ProxmoxHost.run

    def recorded(host: ProxmoxHost, line: str, *more: Any, **named: Any) -> Ran:
        lines.append(line)
        return run(host, line, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProxmoxHost, "run", recorded)
        yield lines


def assert_as_shown(done: Recovery, lines: list[str]) -> None:
    """What ran is what the plan showed, letter for letter and in that order; whatever else the host was told, looks."""
    shown = [step.command for step in done.plan.steps if step.command]
    ran = [step.command for step in done.steps if step.command]
    rest = iter(shown)
    assert all(command in rest for command in ran), (ran, shown)
    for line in lines:
        assert line in shown or LOOK.search(line), line
    there = [command for command in ran if not command.startswith(("kill ", "sudo -n /"))]
    assert there == [line for line in lines if line in shown], "what is said to have run there did"
