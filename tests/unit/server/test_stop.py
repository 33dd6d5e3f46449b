"""Stopping a stand-in for SGLang: all of it, with proof, and nobody signalled who was not shown."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from remote import ports, processes
from remote.server import find, state, stop
from remote.server.command import DUMP_DIR
from remote.wire.errors import ChangedSincePlan
from remote.wire.server import Phase
from tests.unit.server.conftest import LISTEN, StandIn, start, stopped, until


def test_stopping_ends_all_and_proves_it(stand_in: StandIn) -> None:
    start(stand_in.with_traits("child"))
    stand_in.says("200")
    stand_in.reaches(Phase.READY)
    plan = stop.plan(stand_in.target)
    assert len(plan.basis["processes"]) == 2
    assert any("kill -TERM" in step.command for step in plan.steps)
    assert plan.losses
    outcome, _ = stopped(stand_in.target)
    assert outcome.ok
    assert [check.name for check in outcome.checks] == ["processes", "port", "gpu memory"]
    assert state.read(stand_in.target).phase is Phase.STOPPED
    assert not stop.plan(stand_in.target).needed


def test_a_parent_that_ignores_term_is_killed_after_the_wait(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "TERM_WAIT", 1.0)
    monkeypatch.setattr(stop, "ORPHAN_WAIT", 0.0)  # that is for its children, once it has ended
    monkeypatch.setattr(stop, "REPORT_EVERY", 0.3)
    start(stand_in.with_traits("ignore-term", "child", "deaf-child"))
    until(lambda: len(state.read(stand_in.target).processes) == 2)
    outcome, steps = stopped(stand_in.target)
    assert outcome.ok
    assert any(step.detail.startswith("KILL to") for step in steps)
    assert max(step.seconds for step in steps if step.detail.startswith("2 left")) >= stop.TERM_WAIT


def test_a_frozen_parent_is_not_waited_for(stand_in: StandIn) -> None:
    known = start(stand_in.target)
    os.kill(known.pid, signal.SIGSTOP)
    until(lambda: (process := processes.read(known.pid)) is not None and process.state == "T")
    began = time.monotonic()
    outcome, _ = stopped(stand_in.target)
    assert outcome.ok
    assert time.monotonic() - began < stop.TERM_WAIT


def test_orphans_are_ended(stand_in: StandIn) -> None:
    known = start(stand_in.with_traits("child"))
    until(lambda: len(state.read(stand_in.target).processes) == 2)
    processes.send(known.identity, signal.SIGKILL)
    stand_in.reaches(Phase.ORPHANS)
    outcome, _ = stopped(stand_in.target)
    assert outcome.ok


def test_a_process_that_was_not_shown_stops_the_stop(stand_in: StandIn) -> None:
    start(stand_in.target)
    basis = stop.plan(stand_in.target).basis
    (shown,) = basis["processes"]
    with pytest.raises(ChangedSincePlan, match="did not show"):
        stop.stop(stand_in.target, {"processes": [[shown[0], shown[1] - 1]]}, lambda _: None)
    with pytest.raises(ChangedSincePlan, match="did not show"):
        stop.stop(stand_in.target, {"processes": []}, lambda _: None)
    assert state.read(stand_in.target).phase is Phase.LOADING


def test_a_child_born_after_the_plan_is_ended_with_its_parent_as_the_plan_says(stand_in: StandIn) -> None:
    start(stand_in.with_traits("child", "deaf-child"))
    until(lambda: len(state.read(stand_in.target).processes) == 2)
    plan = stop.plan(stand_in.target)
    parent_only = {"processes": plan.basis["processes"][:1]}
    assert "Descendants" in " ".join(plan.notes)
    assert stop.stop(stand_in.target, parent_only, lambda _: None).ok


def test_one_that_was_not_shown_and_has_ended_stands_for_nobody(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not asked to end, nor is its record marked; who stood behind it is found."""
    own = processes.read(os.getpid())
    assert own is not None
    gone = dataclasses.replace(own, start_ticks=own.start_ticks - 1)
    before = find.Found(1, gone, (find.Member(gone, True, find.STARTED),), None)
    behind = find.Found(1, None, (find.Member(own, False, find.ORPHAN),), None)
    looks = iter([before, behind, before, before])
    monkeypatch.setattr(find, "find", lambda target: next(looks))
    found = stop._agreed(stand_in.target, {own.identity})
    assert (found.parent, found.pids, found.ours) == (None, frozenset({own.pid}), False)
    with pytest.raises(ChangedSincePlan, match="has ended"):
        stop._agreed(stand_in.target, {own.identity})


def _orphan(stand_in: StandIn, dump_dir: str) -> processes.Process:
    """A process of a dead server of others. Never without a folder: tests that run beside this one would see it."""
    nap = "import sys, time; print('lives', flush=True); time.sleep(600)"
    argv = ["sglang::scheduler_TP9", "-c", nap]
    titled = f"import subprocess, sys; subprocess.Popen({argv!r}, executable=sys.executable)"
    env = {"PYTHONPATH": stand_in.target.env["PYTHONPATH"], DUMP_DIR: dump_dir}
    starter = subprocess.Popen([sys.executable, "-c", titled], env=env, stdout=subprocess.PIPE, start_new_session=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"lives\n"
    starter.wait()
    return next(p for p in processes.table().values() if p.session == starter.pid and p.argv[:1] == tuple(argv[:1]))


def test_orphans_of_others_are_neither_in_the_way_of_a_stop_nor_touched(stand_in: StandIn) -> None:
    start(stand_in.with_traits("child"))
    orphan = _orphan(stand_in, stand_in.target.dump_dir)
    outcome, _ = stopped(stand_in.target)
    assert outcome.ok
    with pytest.raises(ChangedSincePlan, match="has ended"):
        stop.stop(stand_in.target, {"processes": []}, lambda _: None)
    assert processes.alive(orphan.identity)
    assert state.read(stand_in.target).phase is Phase.ORPHANS  # nobody knows whose
    plan = stop.plan(stand_in.target)
    assert list(orphan.identity) in plan.basis["processes"]
    assert "did not start these" in plan.notes[0]


def test_orphans_of_another_profile_keep_no_server_from_starting(stand_in: StandIn) -> None:
    orphan = _orphan(stand_in, "/dev/shm/of_another")
    assert state.read(stand_in.target).phase is Phase.STOPPED
    assert not stop.plan(stand_in.target).needed
    start(stand_in.target)
    assert processes.alive(orphan.identity)


def test_a_server_that_ended_since_the_plan_is_said(stand_in: StandIn) -> None:
    known = start(stand_in.target)
    basis = stop.plan(stand_in.target).basis
    processes.send(known.identity, signal.SIGKILL)
    until(lambda: processes.alive(known.identity) is None)
    with pytest.raises(ChangedSincePlan, match="has ended"):
        stop.stop(stand_in.target, basis, lambda _: None)


def test_a_server_started_by_hand_is_stopped_only_by_a_plan_that_says_so(stand_in: StandIn) -> None:
    stand_in.says("200")
    child = stand_in.by_hand()
    try:
        stand_in.reaches(Phase.READY)
        plan = stop.plan(stand_in.target)
        assert "did not start these" in plan.notes[0]
        assert stop.stop(stand_in.target, plan.basis, lambda _: None).ok
    finally:
        child.kill()
        child.wait()
    assert state.read(stand_in.target).phase is Phase.STOPPED  # and not crashed: nobody recorded it


def test_what_is_not_sglang_is_never_in_a_plan(stand_in: StandIn) -> None:
    command = [sys.executable, "-c", LISTEN, str(stand_in.target.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        plan = stop.plan(stand_in.target)
        assert not plan.needed
        assert "not free all the same" in plan.notes[0]
        assert holder.poll() is None
        holder.kill()
    until(lambda: ports.is_free("127.0.0.1", stand_in.target.port))
