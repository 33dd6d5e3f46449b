"""What a plan shows is what runs, letter for letter: of every action, and of every kind of step of a recovery."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console import audit
from console.errors import ChangedSincePlan
from console.operations.hostview import HostFacts, HostProcess
from console.operations.recovery_plan import build
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import RESTART, Wish
from remote import ports, processes
from remote.server import launch, stop, suspects
from remote.server import recover as inside
from remote.wire import chain
from remote.wire.plan import Plan, StepResult
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from tests.living import PATIENCE
from tests.unit.operations.herehost import (
    FILE,
    PROGRAMS,
    HereHost,
    changing,
    deaf,
    host,
    profile,
    recovered,
    shown,
    ticks,
)
from tests.unit.patch.conftest import Bench, bench, state
from tests.unit.server.conftest import StandIn, home, stand_in, until

__all__ = ["bench", "deaf", "home", "host", "stand_in", "state"]  # fixtures


def assert_as_shown(plan: Plan, steps: list[StepResult], *, all_of_it: bool = False) -> None:
    ran = [step.command for step in steps if step.command]
    rest = iter(shown(plan))
    assert ran
    assert all(command in rest for command in ran), (ran, shown(plan))
    assert not all_of_it or ran == shown(plan)
    titles = [step.title for step in plan.steps]
    assert {step.title for step in steps if step.command} <= set(titles)


def test_start_and_stop(stand_in: StandIn) -> None:
    for action, run in ((launch.plan, launch.start), (stop.plan, stop.stop)):
        steps: list[StepResult] = []
        plan = action(stand_in.target)
        run(stand_in.target, plan.basis, steps.append)
        assert_as_shown(plan, steps)


def test_apply_and_revert(bench: Callable[..., Bench]) -> None:
    from remote.patch import operations

    env = bench()
    for planned, run in ((operations.plan_apply, operations.apply), (operations.plan_revert, operations.revert)):
        steps: list[StepResult] = []
        plan = planned(env.target)
        assert run(env.target, plan.basis, steps.append).ok
        assert_as_shown(plan, steps, all_of_it=True)


def test_a_recovery_from_inside(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that ignores TERM, with a child that does."""
    monkeypatch.setattr(inside, "TERM_WAIT", 0.3)
    plan = launch.plan(stand_in.with_traits("ignore-term", "child", "deaf-child"))
    launch.start(stand_in.with_traits("ignore-term", "child", "deaf-child"), plan.basis, lambda _: None)
    stand_in.says("500")
    stand_in.reaches(Phase.UNHEALTHY)
    plan = build(Seen(suspects.facts(stand_in.target)), profile(), Wish())
    steps: list[StepResult] = []
    outcome = inside.end(stand_in.target, plan.basis, steps.append)
    assert outcome.ok, outcome
    assert_as_shown(plan, steps, all_of_it=True)
    assert [command.split()[1] for command in shown(plan)] == ["-TERM", "-KILL"]


def test_a_recovery_by_the_host(
    host: type[HereHost], deaf: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Thaw, TERM and KILL by the host's pids and by `pct exec`, sshd: each line of the plan, and no other."""
    files = [tmp_path / name / FILE for name in ("a b; touch x", "$(touch y)")]
    for file in files:
        file.parent.mkdir()
        file.write_text("FROZEN")
    outer, inner = deaf(), deaf()
    frozen = tuple(map(str, files))
    seen_by_host = HostProcess(
        outer.pid, ticks(outer), 4242, "S", "sglang::scheduler", "sglang::", 0, 9.0, "/", ("x",), frozen=frozen,
        dump_dir="/dev/shm/x",
    )  # fmt: skip
    orphan = ProcessInfo(inner.pid, ticks(inner), "sglang::scheduler_TP1", "root", "S", ours=True)
    facts = PortFacts(1.0, 8000, Phase.ORPHANS, "", (orphan,), user="ann", no_root="there is no sudo")
    seen = Seen(facts, HostFacts(1, ("x",), (seen_by_host,)), "pct", sshd_dead=True, prefix="sudo -n ")
    plan = build(seen, profile(), Wish())
    outcome, steps = recovered(plan)
    assert outcome.ok, outcome
    assert_as_shown(plan, steps, all_of_it=True)
    assert changing(host) == shown(plan)
    assert len(shown(plan)) == 2 + 2 + 2 + 1
    assert [file.read_text() for file in files] == ["THAWED", "THAWED"]
    assert (outer.wait(PATIENCE), inner.wait(PATIENCE)) == (-9, -9)
    assert sorted(path.name for path in host.folder.iterdir()) == sorted([*PROGRAMS, "pct.state"]), "no name was run"
    log = str(audit.path_of("here"))
    begin, end = chain.last(log, 2).entries
    assert [step["command"] for step in begin.data["steps"] if step["command"]] == shown(plan)
    assert [step["command"] for step in end.data["steps"]] == shown(plan)
    assert chain.verify(log).ok


def test_a_restart(host: type[HereHost]) -> None:
    plan = build(Seen(PortFacts(1.0, 8000, Phase.STOPPED, "", user="root"), prefix=""), profile(), Wish(last=RESTART))
    outcome, steps = recovered(plan)
    assert outcome.ok, outcome
    assert changing(host) == shown(plan) == ["timeout 60 pct stop 129", "timeout 60 pct start 129"]
    assert_as_shown(plan, steps, all_of_it=True)


@pytest.mark.parametrize(
    ("planned", "now", "says"),
    [
        (HostFacts(20, namespace="pid:[7]"), HostFacts(31, namespace="pid:[8]"), "was started since the plan"),
        (HostFacts(20, namespace="pid:[7]"), HostFacts(None), "was stopped since the plan"),
        (HostFacts(None), HostFacts(31, namespace="pid:[8]"), "was started since the plan"),
    ],
)
def test_what_another_has_restarted_is_not_restarted_again(
    host: type[HereHost], planned: HostFacts, now: HostFacts, says: str
) -> None:
    plan = build(Seen(None, planned, "host", no_inside="no word", prefix=""), profile(), Wish(last=RESTART))
    host.facts = now
    with pytest.raises(ChangedSincePlan, match=says):
        recovered(plan)
    assert not [line for line in host.lines if "pct st" in line]


def test_a_pid_that_is_anothers_by_now_is_not_signalled(
    host: type[HereHost], deaf: Callable[[], subprocess.Popen[bytes]]
) -> None:
    bystander = deaf()
    other = HostProcess(bystander.pid, ticks(bystander) - 1, 7, "S", "sglang::x", "sglang::", 0, 9.0, "/", ("x",))
    plan = build(
        Seen(None, HostFacts(1, ("x",), (other,)), "host", prefix=""), profile(), Wish(including_host=(other.pid,))
    )
    _, steps = recovered(plan)
    assert f"{bystander.pid}:{ticks(bystander) - 1}: gone" in steps[0].detail
    assert bystander.poll() is None


def test_who_is_started_again_is_told_with_what_starts_it(
    stand_in: StandIn, deaf: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    again = processes.read(deaf().pid)
    assert again is not None
    later = ((suspects.Suspect(again, True, "ours", ("x",)),), ())
    looks = iter([((), ()), later, later])
    monkeypatch.setattr(suspects, "look", lambda target: next(looks))
    monkeypatch.setattr(ports, "bind_error", lambda *_: OSError(98, "Address already in use"))
    monkeypatch.setattr(processes, "cgroup", lambda pid: "/system.slice/sglang.service")
    outcome = inside.end(stand_in.target, {"processes": [], "as_root": [], "known": []}, lambda _: None)
    said = f"Come since: pid {again.pid} [/system.slice/sglang.service]. Stop what starts it again"
    assert [check.name for check in outcome.checks if said in check.remedy] == ["port", "orphans"]
    looks = iter([later, later, later])  # a child of one that the plan knew: nothing else started it
    mine = processes.read(os.getpid())
    assert mine is not None
    basis = {"processes": [], "as_root": [], "known": [list(mine.identity)]}
    outcome = inside.end(stand_in.target, basis, lambda _: None)
    assert [check.remedy for check in outcome.checks if check.name == "orphans"] == ["Recover again."]
    assert not [check for check in outcome.checks if "Come since" in check.remedy]


def test_every_python_and_one_that_came_since(
    stand_in: StandIn, deaf: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the pids of the plan, each with its start time: not a newcomer, and not one that has another's pid."""
    monkeypatch.setattr(suspects, "look", lambda target: ((), ()))
    monkeypatch.setattr(inside, "TERM_WAIT", 0.2)
    listed, reused = deaf(), deaf()
    newcomer = deaf()
    basis = {"processes": [[listed.pid, ticks(listed)], [reused.pid, ticks(reused) - 1]], "as_root": [], "known": []}
    steps: list[StepResult] = []
    inside.end(stand_in.target, basis, steps.append)
    until(lambda: listed.poll() is not None)
    time.sleep(0.2)
    assert (newcomer.poll(), reused.poll()) == (None, None)
    assert [step.detail for step in steps if step.command] == [f"sent to pid {listed.pid}"] * 2
