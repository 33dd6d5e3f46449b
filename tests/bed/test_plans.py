"""A plan is shown, confirmed and held to: last resorts, newcomers, reused pids, read-only profiles."""

from __future__ import annotations

import dataclasses
import json
import re
from concurrent.futures import ThreadPoolExecutor, as_completed

import msgspec
import pytest

from console.config.profile import Profile
from console.errors import ChangedSincePlan, OperatorError, Refused
from console.operations import hostcommands, recover
from console.operations.calls import Agent
from console.operations.recovery_wish import PYTHONS, RESTART, Wish
from remote.wire.plan import Outcome, Plan, StepResult
from tests.bed.container import PORT, Ground
from tests.bed.recovering import agent_of, recovery
from tests.bed.rootfs import PLAIN_USER

RECORD = f"/root/.local/state/hsconsole/server-{PORT}.json"


def test_only_what_stands_in_the_way_can_be_included(profile: Profile, ground: Ground) -> None:
    with pytest.raises(Refused, match="does not hold port 8000"):
        recovery(profile, Wish(including=(1,)))


def test_last_resort_every_python(profile: Profile, ground: Ground) -> None:
    """Each is shown before; one that comes after that is not ended."""
    other = ground.hold("plain", module="ipykernel_launcher", user=PLAIN_USER, ours=False, port=PORT + 1)
    ground.hold("orphans")
    with agent_of(profile) as agent:
        plan = recover.plan(agent, profile, Wish(last=PYTHONS))
        newcomer = ground.hold("plain", module="ipykernel_launcher", ours=False, port=PORT + 2)
        outcome = recover.run(agent, profile, plan, lambda step: None)
    assert plan.word == "kill every python"
    (line,) = [step.title for step in plan.steps if f"pid {other} " in step.title]
    age = r"[\d.]+ s old \(since 20\d\d-[\d: -]+ UTC\)"
    assert re.match(rf"pid {other} of {PLAIN_USER}, {age}, state S: python3 -m ipykernel_launcher", line)
    assert "NOT ours (a Python process), named by you" in line
    assert f"What pid {other} is doing: it is not ours." in plan.losses
    assert outcome.ok, outcome
    assert not ground.exists(other)
    assert ground.exists(newcomer)


def test_last_resort_restart(profile: Profile, ground: Ground) -> None:
    """And what another operator has confirmed meanwhile restarts it no second time."""
    before = ground.init_pid
    ground.hold("orphans")
    with agent_of(profile) as agent:
        stale = recover.plan(agent, profile, Wish(last=RESTART))
    done = recovery(profile, Wish(last=RESTART))
    assert done.ok, done.truth
    after = ground.init_pid
    assert after != before
    ground.sh("until ss -ltnH | grep -q :22; do sleep 0.1; done")
    assert not ground.is_held()
    with agent_of(profile) as agent, pytest.raises(ChangedSincePlan, match="container 129 was started since the plan"):
        recover.run(agent, profile, stale, lambda step: None)
    assert ground.init_pid == after


def test_somebody_new_since_the_plan(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    with agent_of(profile) as agent:
        plan = recover.plan(agent, profile)
        newcomer = ground.hold("plain", module="ipykernel_launcher", ours=False, port=PORT + 1)
        six = ground.hold("six", module="ipykernel_launcher", ours=False)
        with pytest.raises(ChangedSincePlan, match=f"pid {six}"):
            recover.run(agent, profile, plan, lambda step: None)
    assert ground.is_held(), "nothing was ended"
    assert ground.exists(newcomer)


def test_of_two_operators_one_recovers_and_the_other_is_told_who(profile: Profile, ground: Ground) -> None:
    """The one stands still, as it reads what is on record, until the other has been turned away."""
    pid = ground.hold("stubborn")
    ran: list[StepResult] = []

    def act(agent: Agent | None, plan: Plan) -> Outcome | OperatorError:
        try:
            return recover.run(agent, profile, plan, ran.append)
        except OperatorError as error:
            return error

    with agent_of(profile) as one, agent_of(profile) as other, ThreadPoolExecutor(2) as pool:
        plans = [(agent, recover.plan(agent, profile)) for agent in (one, other)]
        ground.sh(f"mkfifo {RECORD}")
        running = [pool.submit(act, *both) for both in plans]
        refused = next(as_completed(running)).result()
        ground.sh(f"mv {RECORD} {RECORD}.read; : >{RECORD}.read")
        (outcome,) = [end.result() for end in running if end.result() is not refused]
    assert isinstance(refused, Refused), refused
    assert isinstance(outcome, Outcome), outcome
    assert outcome.ok, outcome
    assert re.match(r"port 8000: \S+@\S+ \(root from 10\.129\.0\.50\) is recovering the server \(since ", refused.what)
    assert [step.command for step in ran if step.command] == [f"kill -TERM {pid}", f"kill -KILL {pid}"]
    lines = map(json.loads, ground.sh("cat /root/.local/state/hsconsole/audit.jsonl").splitlines())
    told = [entry["data"] for entry in lines if entry["kind"] == "end"]
    assert [end["ok"] for end in told] == [False, True], "both are on record"
    assert not recovery(profile).plan.needed


def test_a_pid_that_is_anothers_by_now(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    bystander = ground.hold("plain", module="ipykernel_launcher", ours=False, port=PORT + 1)
    with agent_of(profile) as agent:
        plan = recover.plan(agent, profile)
        basis = {**plan.basis, "processes": [*plan.basis["processes"], [bystander, 1]]}
        there = [[ground.on_host(bystander), 1]]
        host = {name: hostcommands.line("", hostcommands.signal(name, there)) for name in ("TERM", "KILL", "0")}
        outcome = recover.run(agent, profile, dataclasses.replace(plan, basis={**basis, "host": host}), lambda s: None)
    assert outcome.ok
    assert ground.exists(bystander), "its start time is not the one of the plan"


def test_nothing_to_recover(profile: Profile, ground: Ground) -> None:
    done = recovery(profile)
    assert not done.plan.needed
    assert done.plan.title == "Port 8000 is free and nothing of a dead server is left"


def test_read_only_profiles_are_refused(profile: Profile, ground: Ground) -> None:
    ground.hold("orphans")
    with pytest.raises(Refused, match="read-only"):
        recovery(msgspec.structs.replace(profile, read_only=True))
    assert ground.is_held()
