"""The state of the server, by processes, answers and log: a test for each phase and each way to be wrong."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from remote import processes
from remote.server import exits, launch, record, state
from remote.wire.server import Phase, ServerState
from tests.living import PATIENCE
from tests.unit.server.conftest import StandIn, start, until


def test_nothing_is_stopped(stand_in: StandIn) -> None:
    found = state.read(stand_in.target)
    assert (found.phase, found.pid, found.processes) == (Phase.STOPPED, None, ())


def test_the_phases_follow_health_and_it_alone(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.server.ask.DEADLINE", 0.5)
    known = start(stand_in.with_traits("child"))
    loading = state.read(stand_in.target)
    assert loading.phase is Phase.LOADING
    assert (loading.pid, loading.health_status) == (known.pid, None)
    assert loading.load is not None
    assert loading.load.stage == "starting its processes"
    for says, phase in (("503", Phase.STARTING), ("200", Phase.READY), ("500", Phase.UNHEALTHY)):
        stand_in.says(says)
        found = stand_in.reaches(phase)
        assert found.health_status == int(says)
    stand_in.says("200")  # with an empty body
    ready = stand_in.reaches(Phase.READY)
    assert (ready.sglang_version, ready.model_path) == ("9.9.9", "/models/stand-in")
    assert (ready.running, ready.queued) == (2, 3)
    assert [process.command.split()[0] for process in ready.processes] == [sys.executable, "sglang::scheduler_TP0"]
    assert all(process.ours and process.why for process in ready.processes)
    stand_in.says("hang")
    hanging = stand_in.reaches(Phase.UNHEALTHY)
    assert hanging.health_status is None
    assert "no answer within" in hanging.detail
    os.kill(known.pid, signal.SIGSTOP)
    assert "SIGSTOP" in state.read(stand_in.target).detail


def test_a_server_that_was_ready_and_answers_503_is_ending_not_starting(stand_in: StandIn) -> None:
    start(stand_in.target)
    watcher = state.Observer(stand_in.target)
    stand_in.says("200")
    until(lambda: watcher.look().phase is Phase.READY)
    stand_in.says("503")
    found = watcher.look()
    assert found.phase is Phase.UNHEALTHY
    assert "it is ending" in found.detail


def test_a_death_is_a_crash_with_its_cause(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SECOND_LOOK", PATIENCE)  # it ends by itself
    target = stand_in.with_traits("no-space")
    outcome = launch.start(target, launch.plan(target).basis, lambda _: None)
    assert not outcome.ok
    assert "No space left on device" in outcome.checks[0].found
    assert outcome.checks[0].remedy
    found = state.read(target)
    assert found.phase is Phase.CRASHED
    assert found.cause is not None
    assert "No space left on device" in found.cause
    assert found.remedy == outcome.checks[0].remedy
    why = mock.Mock(wraps=exits.cause)
    monkeypatch.setattr(exits, "cause", why)
    watcher = state.Observer(target)
    assert [watcher.look().cause for _ in range(3)] == [found.cause] * 3
    assert why.call_count == 1, "a look at a server that is gone costs what changed"
    with Path(record.log_path(target.port)).open("a") as log:
        log.write("one word more\n")
    assert [watcher.look().cause for _ in range(3)] == [found.cause] * 3
    assert why.call_count == 2


def test_children_that_live_on_are_orphans_not_stopped(stand_in: StandIn) -> None:
    known = start(stand_in.with_traits("child", "deaf-child"))
    until(lambda: len(state.read(stand_in.target).processes) == 2)
    processes.send(known.identity, signal.SIGKILL)
    found = stand_in.reaches(Phase.ORPHANS)
    assert [process.command.split()[0] for process in found.processes] == ["sglang::scheduler_TP0"]
    assert found.processes[0].ours
    assert "same session" in found.processes[0].why
    assert "is free" in found.detail


def test_another_process_with_the_recorded_pid_is_not_the_server(stand_in: StandIn) -> None:
    known = start(stand_in.target)
    processes.send(known.identity, signal.SIGKILL)
    until(lambda: processes.alive(known.identity) is None)
    mine = processes.read(os.getpid())
    assert mine is not None
    record.write(dataclasses.replace(known, pid=mine.pid))  # as if this process had been given the pid since
    found = state.read(stand_in.target)
    assert found.phase is Phase.CRASHED
    assert found.processes == ()


def test_after_a_restart_of_the_machine_the_record_means_nothing(stand_in: StandIn) -> None:
    known = start(stand_in.target)
    processes.send(known.identity, signal.SIGKILL)
    record.write(dataclasses.replace(known, boot_id="another"))
    found = state.read(stand_in.target)
    assert (found.phase, found.detail) == (Phase.STOPPED, "the machine was restarted since")


@pytest.mark.parametrize("text", ["{", "[]", '{"port": "x"}', ""])
def test_a_record_that_cant_be_read_is_none(stand_in: StandIn, text: str) -> None:
    known = start(stand_in.target)
    Path(known.log).with_suffix(".json").write_text(text)
    assert record.read(stand_in.target.port) is None
    found = state.read(stand_in.target)
    assert found.phase is Phase.LOADING  # still found, by its command line
    assert not found.processes[0].ours


def test_a_server_started_by_hand_is_recognised_and_not_ours(stand_in: StandIn) -> None:
    stand_in.says("200")
    with stand_in.by_hand() as child:
        found = stand_in.reaches(Phase.READY)
        assert found.pid == child.pid
        assert [process.ours for process in found.processes] == [False]
        child.kill()


def test_a_port_held_by_others_is_named(stand_in: StandIn) -> None:
    with socket.create_server(("127.0.0.1", stand_in.target.port)):
        found = state.read(stand_in.target)
        assert found.phase is Phase.PORT_HELD
        assert f"pid {os.getpid()}" in found.detail
        assert found.processes == ()


def test_a_stranger_that_answers_for_a_loading_server_is_not_ready(stand_in: StandIn) -> None:
    start(stand_in.target)
    script = (
        "import sys; from http.server import HTTPServer, SimpleHTTPRequestHandler as Handler;"
        "HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(stand_in.target.port)], cwd=stand_in.folder) as stranger:
        found = stand_in.reaches(Phase.PORT_HELD)
        assert f"pid {stranger.pid}" in found.detail
        assert "will fail" in found.detail
        stranger.kill()


def test_a_dumping_server_whose_health_generates_is_not_asked_for_it(stand_in: StandIn) -> None:
    target = dataclasses.replace(stand_in.target, env={**stand_in.target.env, "SGLANG_HS_DUMP_DIR": "/dev/shm/x"})
    made = dataclasses.replace(stand_in, target=target)
    stand_in.says("200")  # answers /health, and 404 to /model_info
    with made.by_hand() as child:
        until(lambda: state.read(target).phase is not Phase.LOADING)
        assert state.read(target).health_status == 404
        child.kill()


def test_what_the_running_server_loaded_is_told_by_pid_and_start_time(stand_in: StandIn) -> None:
    known = start(stand_in.target)
    loaded = Path(stand_in.target.dump_dir) / ".loaded"
    loaded.mkdir(parents=True)
    claim = f'{{"pid": {known.pid}, "start_ticks": %d, "dumper_version": "1.2"}}'
    (loaded / f"{known.pid}.json").write_text(claim % (known.start_ticks - 1))
    assert state.read(stand_in.target).patch_loaded is None
    (loaded / f"{known.pid}.json").write_text(claim % known.start_ticks)
    assert state.read(stand_in.target).patch_loaded == "1.2"


def test_watching_sends_changes_only(stand_in: StandIn) -> None:
    start(stand_in.target)
    seen: list[ServerState] = []
    cancelled = threading.Event()
    watcher = threading.Thread(target=state.watch, args=(stand_in.target, seen.append, cancelled))
    watcher.start()
    until(lambda: seen)
    cancelled.wait(2.5)
    assert [one.phase for one in seen] == [Phase.LOADING]
    stand_in.says("200")
    until(lambda: seen[-1].phase is Phase.READY)
    cancelled.set()
    watcher.join(PATIENCE)
    assert len(seen) <= 3
