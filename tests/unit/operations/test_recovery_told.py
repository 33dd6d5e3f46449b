"""What a recovery tells of what was done, whatever keeps it from looking at what came of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.errors import LinkError, OperatorError
from console.operations import recover, recovery_ways
from console.operations.hostview import HostFacts, HostProcess
from console.operations.proxmox import ProxmoxError
from console.operations.recovery_plan import build
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import Wish
from console.ssh.exchange import Ran
from remote.server import proof, suspects
from remote.server import recover as inside
from remote.wire.plan import Check, Verdict
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from tests.living import PATIENCE
from tests.unit.operations.herehost import FILE, HereHost, deaf, host, profile, recovered, shown, ticks
from tests.unit.patch.conftest import bench, state
from tests.unit.server.conftest import StandIn, home, stand_in

__all__ = ["bench", "deaf", "home", "host", "stand_in", "state"]  # fixtures


def test_a_host_that_gives_no_answer_ended_nobody(host: type[HereHost], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they count as left, with what the host said instead."""
    monkeypatch.setattr(recover, "PATIENCE", {"TERM": 0.1, "KILL": 0.1})
    monkeypatch.setattr(HereHost, "run", lambda *_: Ran(1, b"Welcome to pve\n", b"fork: Cannot allocate memory\n"))
    other = HostProcess(os.getpid(), 1, 7, "S", "sglang::x", "sglang::", 0, 9.0, "/", ("x",), dump_dir="/dev/shm/x")
    plan = build(Seen(None, HostFacts(1, ("x",), (other,)), "host", prefix=""), profile(), Wish())
    outcome, steps = recovered(plan)
    assert not outcome.ok
    assert [step.ok for step in steps] == [False, False]
    assert "Cannot allocate memory" in outcome.checks[0].found


@pytest.mark.parametrize("fault", [LinkError("the line broke"), ProxmoxError("not whole", "Try again.")])
def test_a_host_that_is_lost_before_the_second_look_takes_no_word_back(
    host: type[HereHost],
    deaf: Callable[[], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    fault: OperatorError,
) -> None:
    def look(*_: object) -> HostFacts:
        raise fault

    monkeypatch.setattr(HereHost, "look", look)
    one = deaf()
    other = HostProcess(one.pid, ticks(one), 7, "S", "sglang::x", "", 0, 9.0, "/", ("x",), dump_dir="/dev/shm/x")
    outcome, steps = recovered(build(Seen(None, HostFacts(1, ("x",), (other,)), "host", prefix=""), profile(), Wish()))
    assert one.wait(PATIENCE) == -9
    assert [step.ok for step in steps] == [True, True]
    assert not outcome.ok
    assert [(check.name, check.verdict) for check in outcome.checks] == [
        ("ended on the Proxmox host", Verdict.OK),
        ("gpu memory", Verdict.UNKNOWN),
        ("port by the host", Verdict.BAD),
    ]
    assert fault.what in outcome.checks[-1].found


def test_an_sshd_that_does_not_start_takes_no_outcome_along(
    host: type[HereHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = build(Seen(None, HostFacts(1), "host", prefix="", sshd_dead=True), profile(), Wish())
    start_sshd = shown(plan)[-1]
    run_line = HereHost.run

    def hang(host: HereHost, line: str, timeout: float = 20.0) -> Ran:
        if line == start_sshd:
            raise LinkError("no end within 20 s")
        return run_line(host, line, timeout)

    monkeypatch.setattr(HereHost, "run", hang)
    outcome, steps = recovered(plan)
    assert (steps[-1].command, steps[-1].ok) == (start_sshd, False)
    assert ("sshd", Verdict.BAD, "no end within 20 s") in [(one.name, one.verdict, one.found) for one in outcome.checks]
    assert "port by the host" in [one.name for one in outcome.checks], "and it is looked at all the same"


@pytest.mark.parametrize(
    ("sockets", "found"),
    [
        ("LISTEN 0 128 0.0.0.0:22 0.0.0.0:*", "it listens again"),
        ("LISTEN 2 128 0.0.0.0:22 0.0.0.0:*", "nobody is accepted there still"),
        ("", "it does not listen"),
    ],
)
def test_of_an_sshd_that_was_started_a_look_tells(host: type[HereHost], sockets: str, found: str) -> None:
    """Also where no agent could be run in the container."""
    (host.folder / "ss").write_text(f"#!/bin/sh\necho '{sockets}'\n")
    outcome, steps = recovered(build(Seen(None, HostFacts(1), "host", prefix="", sshd_dead=True), profile(), Wish()))
    ok = found == "it listens again"
    assert (steps[-1].detail, steps[-1].ok, outcome.ok) == (found, ok, ok)


def test_an_sshd_that_nobody_could_look_at_is_not_told_to_listen(host: type[HereHost]) -> None:
    plan = build(Seen(None, HostFacts(1), "host", prefix="", sshd_dead=True), profile(), Wish())
    (host.folder / "pct").write_text("#!/bin/sh\necho 'CT 129 not running' >&2\n")
    outcome, steps = recovered(plan)
    assert (steps[-1].detail, outcome.ok) == ("nobody could look: CT 129 not running", False)


@pytest.mark.parametrize("user", ["root", "ann"])
def test_whom_no_agent_was_there_to_end_is_told_to_live(
    host: type[HereHost], deaf: Callable[[], subprocess.Popen[bytes]], user: str
) -> None:
    """Orphans that hold GPU memory alone: that the host sees no listener says nothing of them."""
    one = deaf()
    orphan = ProcessInfo(one.pid, ticks(one), "sglang::scheduler", "root", "S", ours=True)
    facts = PortFacts(1.0, 8000, Phase.ORPHANS, "", (orphan,), user=user, as_root="" if user == "root" else "sudo -n")
    plan = build(Seen(facts, HostFacts(1), "pct", prefix=""), profile(), Wish())
    assert [[one.pid, ticks(one)]] in (plan.basis["processes"], plan.basis["as_root"])
    outcome, steps = recovered(plan)
    assert (outcome.ok, steps, one.poll()) == (False, [], None)
    (left,) = [check for check in outcome.checks if check.verdict is Verdict.BAD]
    assert left.found == f"nobody was signalled of pid {one.pid}: no agent could be run there: no way in"


def fail(*_: object) -> Any:
    raise ProxmoxError("not whole", "Try again.")


@pytest.mark.parametrize("where", ["host", "agent"])
def test_after_a_thaw_a_look_that_fails_takes_no_word_back(
    host: type[HereHost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (tmp_path / FILE).write_text("FROZEN")
    frozen = HostFacts(1, frozen=(str(tmp_path / FILE),))
    plan = build(Seen(None, frozen, "host", no_inside="no word", prefix=""), profile(), Wish())
    if where == "host":
        monkeypatch.setattr(HereHost, "look", fail)
    monkeypatch.setattr(recovery_ways.Ways, "_agent_by_host", lambda ways: object())
    monkeypatch.setattr(recover, "server_state", fail)
    outcome, steps = recovered(plan)
    assert ([step.ok for step in steps], (tmp_path / FILE).read_text()) == ([True], "THAWED")
    found = [(check.verdict, check.found) for check in outcome.checks]
    assert found == [
        *([(Verdict.OK, "it runs again")] if where == "agent" else []),
        (Verdict.BAD, "nobody could look: not whole"),
    ]
    assert not outcome.ok


def test_memory_that_does_not_come_back_is_no_recovery(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "look", lambda target: ((), ()))
    held = Check("gpu memory", Verdict.BAD, "above what it was before the start: GPU 1: 143 GB", "See who uses it.")
    monkeypatch.setattr(proof, "gpus_back", lambda found: held)
    outcome = inside.end(stand_in.target, {"processes": [], "as_root": [], "known": []}, lambda _: None)
    assert not outcome.ok
    assert held in outcome.checks
