"""Starting a stand-in for SGLang: detached, once, and only what was shown."""

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
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import processes, statedir
from remote.server import launch, log, preflight, record, state, stop
from remote.wire.codec import encode
from remote.wire.errors import ChangedSincePlan, OperatorError, Refused, ServerError
from remote.wire.plan import Outcome, StepResult, Verdict
from remote.wire.server import Phase
from tests.living import PATIENCE
from tests.unit.server.conftest import LISTEN, StandIn, start, stopped

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
