"""A restart keeps the command and the environment of what runs, and says where the profile has other ones by now."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote import processes
from remote.server import command, find, launch, restart, running, state, stop
from remote.server.restart import AS_IT_RUNS
from remote.wire.errors import ChangedSincePlan, Refused
from remote.wire.plan import Outcome, Plan, StepResult
from remote.wire.server import Phase
from remote.wire.target import Target
from tests.unit.server.conftest import StandIn, start, until


def parent(target: Target) -> processes.Process:
    found = find.find(target).parent
    assert found is not None
    return found


def kept(process: processes.Process) -> dict[str, str]:
    """Of its environment what a restart is to keep."""
    found = processes.environ(process.pid)
    return {name: found[name] for name in found if name.startswith("SGLANG_") or name == "PYTHONPATH"}


def told(plan: Plan) -> str:
    return "\n".join((*plan.notes, *(step.command for step in plan.steps)))


def test_the_same_again(stand_in: StandIn) -> None:
    target = dataclasses.replace(
        stand_in.target,
        env={**stand_in.target.env, "NCCL_DEBUG": "WARN", "ODD": "a b"},
        flags=(*stand_in.target.flags, "--api-key hunter2", "--dtype", "auto"),
    )
    start(target)
    before = parent(target)
    environment = kept(before)
    plan = restart.plan(target)
    assert (plan.needed, plan.basis["differs"], plan.action) == (True, [], AS_IT_RUNS)
    assert f"kill -TERM {before.pid}" in told(plan)
    assert "hunter" not in repr(plan)
    steps: list[StepResult] = []
    outcome = restart.run(target, plan.basis, steps.append)
    assert (outcome.ok, outcome.action) == (True, AS_IT_RUNS)
    assert "hunter" not in repr((outcome, steps))
    after = parent(target)
    assert after.pid != before.pid
    assert after.argv == before.argv
    assert kept(after) == environment
    assert processes.environ(after.pid)["ODD"] == "a b"
    assert state.read(target).processes[0].ours


def test_where_the_profile_says_otherwise_both_can_be_had(stand_in: StandIn) -> None:
    start(stand_in.target)
    changed = dataclasses.replace(
        stand_in.target,
        layers=(2, 3),
        eagle_layer_ids=(2, 3),
        flags=("--device cpu", "--load-format dummy", "--dtype=half", "--api-key=hunter3"),
        env={**stand_in.target.env, "NCCL_DEBUG": "INFO", "HF_TOKEN": "hunter4"},
    )
    as_it_runs, by_profile = restart.plan(changed), restart.plan_by_profile(changed)
    for plan, flag in ((as_it_runs, "--by-profile"), (by_profile, "--as-it-runs")):
        said = told(plan)
        assert plan.basis["differs"] == [
            "layers (2, 3) instead of (3, 31, 59)",
            "with --dtype half",
            "with --api-key •••",
            "with HF_TOKEN=•••",
            "with NCCL_DEBUG=INFO",
        ]
        assert "with --dtype half" in said
        assert flag in said
        assert "hunter" not in repr(plan)
    assert "half" not in as_it_runs.steps[-2].command
    assert restart.run(changed, as_it_runs.basis, lambda _: None).ok
    assert processes.flag_value(parent(changed), "--dtype") is None
    assert processes.environ(parent(changed).pid)[command.DUMP_LAYERS] == "3,31,59"
    assert restart.run_by_profile(changed, restart.plan_by_profile(changed).basis, lambda _: None).ok
    assert processes.flag_value(parent(changed), "--dtype") == "half"
    assert processes.environ(parent(changed).pid)[command.DUMP_LAYERS] == "2,3"
    assert restart.plan(changed).basis["differs"] == []


@contextlib.contextmanager
def by_hand(stand_in: StandIn, *flags: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [*stand_in.command(), "--device", "cpu", "--load-format=dummy", *flags]
    child = subprocess.Popen(words, env={**stand_in.target.env, **env}, stdout=subprocess.DEVNULL)
    try:
        until(lambda: state.read(stand_in.target).pid == child.pid)
        yield child
    finally:
        child.kill()
        child.wait()


def test_a_server_started_by_hand_keeps_its_own_command_line(stand_in: StandIn) -> None:
    stand_in.target = dataclasses.replace(stand_in.target, env={**stand_in.target.env, "ODD": "2"})
    shell = {"NCCL_DEBUG": "INFO", "HOME": "/x", "HF_TOKEN": "hunter5", "ODD": "1"}
    with by_hand(stand_in, "--api-key", "hunter2", "--dtype", "half", **shell):
        plan = restart.plan(stand_in.target)
        assert "did not start these" in told(plan)
        assert "--dtype half" in told(plan)
        assert "without --dtype half" in plan.basis["differs"]
        assert "hunter" not in repr(plan)
        child = parent(stand_in.target)
        outcome = restart.run(stand_in.target, plan.basis, lambda _: None)
    assert outcome.ok
    after = parent(stand_in.target)
    assert after.pid != child.pid
    assert [processes.flag_value(after, name) for name in ("--api-key", "--dtype")] == ["hunter2", "half"]
    env = processes.environ(after.pid)
    assert (env["NCCL_DEBUG"], env["HF_TOKEN"], env["ODD"]) == ("INFO", "hunter5", "1")
    assert env.get("HOME") == os.environ.get("HOME")
    assert env[command.DUMP_DIR] == stand_in.target.dump_dir  # what dumping needs is added


def test_another_users_command_is_never_run_by_this_one(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    start(stand_in.target)
    monkeypatch.setattr(processes, "user", lambda pid: "root" if pid == os.getpid() else "ana")
    with pytest.raises(Refused, match="another user's"):
        restart.plan(stand_in.target)
    with pytest.raises(Refused, match="another user's"):
        restart.run(stand_in.target, {"stop": {}, "start": {}}, lambda _: None)
    assert restart.plan_by_profile(stand_in.target).needed


@pytest.mark.parametrize("odd", ["", "many", "²", "-3", "9" * 5000])
def test_what_is_no_number_on_a_command_line_breaks_nothing(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = processes.read(os.getpid())
    assert mine is not None
    parent = dataclasses.replace(mine, argv=("/p", "-m", "sglang.launch_server", f"--tp={odd}", "--port"))
    monkeypatch.setattr(processes, "environ", lambda _: {command.DUMP_LAYERS: f"3,{odd}", "PATH": "/bin"})
    profile = Target("/p", "/m", port=1, layers=(7,))
    now = running.target(find.Found(1, parent, (), None), profile)
    assert now is not None
    assert (now.tp, now.layers) == (1, (7,))


def test_a_server_that_ends_while_it_is_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = processes.read(os.getpid())
    assert mine is not None
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    parent = dataclasses.replace(mine, pid=gone.pid, argv=("bin/python", "-m", "sglang.launch_server"))
    monkeypatch.setattr(processes, "environ", lambda _: {"PATH": "/bin"})
    monkeypatch.setattr(processes, "user", lambda _: "root")
    assert running.target(find.Found(1, parent, (), None), Target("/p", "/m", port=1)) is None


def test_nothing_is_stopped_for_a_start_that_would_fail(stand_in: StandIn) -> None:
    start(stand_in.target)
    before = parent(stand_in.target)
    plan = restart.plan(stand_in.target)
    Path(stand_in.target.model_path, "config.json").unlink()
    with pytest.raises(Refused, match="no config"):
        restart.plan(stand_in.target)
    with pytest.raises(Refused, match="no config"):
        restart.run(stand_in.target, plan.basis, lambda _: None)
    assert parent(stand_in.target).identity == before.identity


def test_one_who_takes_the_port_meanwhile_is_named(stand_in: StandIn) -> None:
    start(stand_in.target)
    plan = restart.plan(stand_in.target)
    with socket.socket() as stranger:

        def take_it(step: StepResult) -> None:
            if "port" in step.title and not stranger.getsockname()[1]:
                stranger.bind(("127.0.0.1", stand_in.target.port))
                stranger.listen()

        outcome = restart.run(stand_in.target, plan.basis, take_it)
        assert (outcome.ok, f"pid {os.getpid()}" in outcome.summary) == (False, True)
        assert outcome.summary.startswith("Stopped, and not started again: port")
    assert state.read(stand_in.target).phase is Phase.STOPPED


def test_another_operator_who_starts_it_in_between_wins_and_is_named(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(stand_in.target)
    plan = restart.plan(stand_in.target)
    begin = launch.start

    def after_ana(*own: Any) -> Outcome:
        monkeypatch.setenv("USER", "ana")
        assert begin(stand_in.target, launch.plan(stand_in.target).basis, lambda _: None).ok
        monkeypatch.setenv("USER", "ben")
        return begin(*own)

    monkeypatch.setattr(launch, "start", after_ana)
    outcome = restart.run(stand_in.target, plan.basis, lambda _: None)
    assert (outcome.ok, "already runs: pid" in outcome.summary, "started by ana" in outcome.summary) == (
        False,
        True,
        True,
    )
    assert state.read(stand_in.target).processes[0].ours


def test_where_nothing_runs_there_is_nothing_to_restart(stand_in: StandIn) -> None:
    assert not restart.plan(stand_in.target).needed
    with pytest.raises(ChangedSincePlan, match="ended since"):
        restart.run(stand_in.target, {"stop": {}, "start": {}}, lambda _: None)


def test_another_server_than_the_planned_one_is_left_alone(stand_in: StandIn) -> None:
    start(stand_in.target)
    plan = restart.plan_by_profile(stand_in.target)
    assert stop.stop(stand_in.target, plan.basis["stop"], lambda _: None).ok
    start(stand_in.target)
    other = parent(stand_in.target)
    with pytest.raises(ChangedSincePlan, match="did not show"):
        restart.run_by_profile(stand_in.target, plan.basis, lambda _: None)
    assert parent(stand_in.target).identity == other.identity


def test_what_does_not_end_is_not_started_again(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    start(stand_in.target)
    plan = restart.plan(stand_in.target)
    monkeypatch.setattr(processes, "send", lambda *_: True)  # as if no signal could end it
    monkeypatch.setattr(stop, "TERM_WAIT", 0.2)
    monkeypatch.setattr(stop, "KILL_WAIT", 0.2)
    before = parent(stand_in.target)
    outcome = restart.run(stand_in.target, plan.basis, lambda _: None)
    assert (outcome.ok, "not started" in outcome.summary) == (False, True)
    assert parent(stand_in.target).identity == before.identity
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: state.read(stand_in.target).phase in (Phase.STOPPED, Phase.CRASHED))
    assert sys.executable in before.argv
