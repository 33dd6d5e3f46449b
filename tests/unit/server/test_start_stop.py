"""Starting and stopping a stand-in for SGLang: detached, once, and nobody signalled who was not shown."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import ports, processes, statedir
from remote.server import find, launch, log, preflight, record, state, stop
from remote.server.command import DUMP_DIR
from remote.wire.codec import encode
from remote.wire.errors import ChangedSincePlan, OperatorError, Refused, ServerError
from remote.wire.plan import Outcome, StepResult, Verdict
from remote.wire.server import Phase
from remote.wire.target import Target
from tests.living import PATIENCE
from tests.unit.server.conftest import StandIn, until

LISTEN = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
time.sleep(60)
"""
START = """
import json, sys
from remote.patch import operations
from remote.server import launch
from remote.wire.codec import decode
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.target import Target
applied = PatchStatus(PatchState.APPLIED, "python", "applied")
operations.status = lambda target: applied
target = decode(Target, json.loads(sys.argv[1]))
print(launch.start(target, launch.plan(target).basis, print).ok)
"""


def start(target: Target) -> record.Record:
    """Start it, and wait until it has become what its traits say."""
    assert launch.start(target, launch.plan(target).basis, lambda _: None).ok
    found = record.read(target.port)
    assert found is not None
    until(lambda: "server_args" in Path(found.log).read_text())
    return found


def stopped(target: Target) -> tuple[Outcome, list[StepResult]]:
    steps: list[StepResult] = []
    return stop.stop(target, stop.plan(target).basis, steps.append), steps


def test_the_plan_shows_the_command_and_changes_nothing(stand_in: StandIn) -> None:
    env = {**stand_in.target.env, "HF_TOKEN": "hunter2"}
    flags = (*stand_in.target.flags, "--api-key=hunter3")
    target = dataclasses.replace(stand_in.target, env=env, flags=flags)
    plan = launch.plan(target)
    command = plan.steps[0].command
    assert plan.needed
    assert f"{sys.executable} -m sglang.launch_server --model-path" in command
    assert "SGLANG_HS_DUMP_LAYERS=3,31,59" in command
    assert "hunter" not in repr(plan)
    assert state.read(target).phase is Phase.STOPPED
    assert not Path(record.log_path(target.port)).exists()


def test_a_start_survives_and_is_recorded(stand_in: StandIn) -> None:
    steps: list[StepResult] = []
    outcome = launch.start(stand_in.target, launch.plan(stand_in.target).basis, steps.append)
    assert outcome.ok
    assert "loading" in outcome.summary
    assert "ready" in outcome.summary  # only as what is still to come
    assert [step.ok for step in steps] == [True, True]
    known = record.read(stand_in.target.port)
    assert known is not None
    server = processes.alive(known.identity)
    assert server is not None
    assert server.session == server.pid  # no terminal, no channel
    assert server.parent != os.getpid()
    proc = Path(f"/proc/{server.pid}")
    assert (proc / "fd" / "0").readlink() == Path("/dev/null")
    assert (proc / "cwd").readlink() == Path("/")
    assert {(proc / "fd" / n).readlink() for n in "12"} == {Path(known.log)}
    assert Path(known.log).stat().st_mode & 0o077 == 0
    assert "hsconsole starts: env" in log.tail(stand_in.target, 10).lines[0]


def test_a_start_outlives_the_process_that_made_it(stand_in: StandIn) -> None:
    target = json.dumps(encode(stand_in.target))
    done = subprocess.run(
        [sys.executable, "-c", START, target], capture_output=True, timeout=60, check=True, start_new_session=True
    )
    assert done.stdout.endswith(b"True\n")
    stand_in.says("200")
    assert stand_in.reaches(Phase.READY).processes[0].ours


def test_a_running_server_needs_no_start_and_forbids_one(stand_in: StandIn) -> None:
    plan = launch.plan(stand_in.target)
    start(stand_in.target)
    again = launch.plan(stand_in.target)
    assert not again.needed
    assert again.steps == ()
    with pytest.raises(ChangedSincePlan, match="already runs"):
        launch.start(stand_in.target, plan.basis, lambda _: None)


def test_of_two_operators_one_wins_and_the_other_is_told_who(stand_in: StandIn) -> None:
    basis = launch.plan(stand_in.target).basis
    results: list[object] = []

    def operator() -> None:
        try:
            results.append(launch.start(stand_in.target, basis, lambda _: None))
        except Refused as error:
            results.append(error)

    operators = [threading.Thread(target=operator) for _ in range(2)]
    for one in operators:
        one.start()
    for one in operators:
        one.join(60)
    won = [result for result in results if isinstance(result, Outcome)]
    (lost,) = (result for result in results if isinstance(result, Refused))
    assert len(won) == 1
    assert record.who() in lost.what
    assert (
        len([p for p in processes.table().values() if processes.flag_value(p, "--port") == str(stand_in.target.port)])
        == 1
    )


def test_who_starts_while_another_stops_is_told_who(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """By two agents, as two operators have them."""
    monkeypatch.setattr(stop, "TERM_WAIT", PATIENCE)
    target = stand_in.with_traits("ignore-term")
    known = start(target)
    basis = stop.plan(target).basis
    ended: list[Outcome] = []
    said = threading.Event()
    stopping = threading.Thread(target=lambda: ended.append(stop.stop(target, basis, lambda _: said.set())))
    stopping.start()
    assert said.wait(PATIENCE)  # TERM is sent, and nothing comes of it
    other = [sys.executable, "-c", START, json.dumps(encode(stand_in.target))]
    refused = subprocess.run(other, capture_output=True, timeout=60, check=False, text=True)
    processes.send(known.identity, signal.SIGKILL)
    stopping.join(PATIENCE)
    assert refused.returncode != 0
    assert f"{record.who()} is stopping the server" in refused.stderr or "one runs on port" in refused.stderr
    assert ended[0].ok
    assert state.read(target).phase is Phase.STOPPED
    start(stand_in.target)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"flags": ("--device cpu", "--load-format dummy", "--enable-mixed-chunk")}, "refused: --enable-mixed-chunk"),
        ({"flags": ("--device cpu", "--load-format dummy", "--disable-radix")}, None),
        ({"flags": ("--device cpu", "--load-format dummy", "--disable-rdx-cache")}, "close: --disable-radix-cache"),
        ({"flags": ("--device cpu",)}, "no weights"),
        ({"model_path": "/no/such/model"}, "no such folder"),
        ({"layers": (3, 31, 61)}, "layers 0 to 60"),
        ({"python": "/usr/bin/no-such-python"}, "no such file"),
        ({"host": "192.0.2.1"}, "192.0.2.1"),
    ],
)
def test_what_would_fail_is_refused_in_words(stand_in: StandIn, change: dict[str, object], says: str | None) -> None:
    target = dataclasses.replace(stand_in.target, **change)  # type: ignore[arg-type]
    if says is None:
        assert launch.plan(target).needed
        return
    with pytest.raises(Refused) as refused:
        launch.plan(target)
    assert says in refused.value.what
    assert refused.value.remedy


def test_a_change_after_the_plan_is_refused(stand_in: StandIn) -> None:
    basis = launch.plan(stand_in.target).basis
    other = dataclasses.replace(stand_in.target, layers=(1, 2))
    with pytest.raises(ChangedSincePlan):
        launch.start(other, basis, lambda _: None)
    assert state.read(stand_in.target).phase is Phase.STOPPED


def test_a_held_port_is_found_before_the_load(stand_in: StandIn) -> None:
    command = [sys.executable, "-c", LISTEN, str(stand_in.target.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        checks = {check.name: check for check in preflight.examine(stand_in.target).checks}
        holder.kill()
    assert checks["port"].verdict is Verdict.BAD
    assert f"pid {holder.pid}" in checks["port"].found
    assert "not ours" in checks["port"].found


def test_logs_are_kept_a_few_deep(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SECOND_LOOK", PATIENCE)  # each ends by itself
    target = stand_in.with_traits("no-space")
    for _ in range(record.LOGS_KEPT + 2):
        launch.start(target, launch.plan(target).basis, lambda _: None)
    folder = Path(record.log_path(target.port)).parent
    kept = sorted(path.name for path in folder.glob("*.log*"))
    assert kept == [f"server-{target.port}.log", *(f"server-{target.port}.log.{n}" for n in (1, 2, 3))]


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow by a byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_no_server_from_being_stopped(stand_in: StandIn) -> None:
    start(stand_in.target)
    with full_disk():
        outcome, _ = stopped(stand_in.target)
    assert outcome.ok


def test_nor_does_one_that_can_only_be_read(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as started by hand then."""
    start(stand_in.target)
    monkeypatch.setattr(statedir, "candidates", lambda env: ["/proc/hsconsole"])
    outcome, _ = stopped(stand_in.target)
    assert outcome.ok, outcome
    with pytest.raises(OperatorError, match="/proc/hsconsole"):
        start(stand_in.target)


def test_a_full_disk_is_said_before_a_start(stand_in: StandIn) -> None:
    with full_disk(), pytest.raises(ServerError, match="log can't be written"):
        start(stand_in.target)
    assert state.read(stand_in.target).phase is not Phase.LOADING


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
