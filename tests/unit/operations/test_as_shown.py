"""What a plan shows is what runs, letter for letter: of every action, and of every kind of step of a recovery."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from console import audit
from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import ChangedSincePlan, LinkError, OperatorError
from console.operations import recover, recovery_ways
from console.operations.hostview import HostFacts, HostProcess
from console.operations.proxmox import ProxmoxError
from console.operations.recovery_plan import build
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import RESTART, Wish
from console.ssh.exchange import Ran
from console.ssh.pct import pct_exec
from remote import ports, processes
from remote.server import launch, proof, stop, suspects
from remote.server import recover as inside
from remote.wire import chain
from remote.wire.plan import Check, Outcome, Plan, StepResult, Verdict
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from tests.living import PATIENCE
from tests.unit.patch.conftest import Bench, bench, state
from tests.unit.server.conftest import StandIn, home, stand_in, until

__all__ = ["bench", "home", "stand_in", "state"]  # fixtures

PROGRAMS = {
    "sudo": 'shift\nexec "$@"',
    "pct": """
case $1 in
  exec) shift 4; exec "$@" ;;
  status) echo "status: $(cat "$0.state")" ;;
  stop) echo stopped >"$0.state" ;;
  start) echo running >"$0.state" ;;
esac""",
    "systemctl": "exit 0",
    "ss": "echo 'LISTEN 0 128 0.0.0.0:22 0.0.0.0:*'",
}
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
FILE = "freezer.state"


def shown(plan: Plan) -> list[str]:
    return [step.command for step in plan.steps if step.command]


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


class HereHost:
    """A host whose lines are run by this machine's sh, with programs of ours for those that it must not run."""

    lines: list[str]
    folder: Path
    facts: HostFacts

    def __init__(self, proxmox: Proxmox) -> None:
        self.proxmox = proxmox
        self.prefix, self.limits = "sudo -n ", ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, line: str, timeout: float = 20.0) -> Ran:
        self.lines.append(line)
        path = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", line], env=path, cwd=self.folder, capture_output=True, timeout=timeout)
        return Ran(done.returncode, done.stdout, done.stderr)

    def execute(self, *words: str, timeout: float = 20.0) -> Ran:
        return self.run(self.prefix + pct_exec(129, *words), timeout)

    def look(self, port: int) -> HostFacts:
        return self.facts

    def becomes(self, wanted: str, seconds: float = 5.0) -> bool:
        return self.run("sudo -n pct status 129").out.decode().strip() == f"status: {wanted}"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[HereHost]:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "pct.state").write_text("running\n")
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "laptop"))
    monkeypatch.setattr(recovery_ways, "ProxmoxHost", HereHost)
    monkeypatch.setattr(recovery_ways.Ways, "_agent_by_host", no_way)
    monkeypatch.setattr(recover, "PATIENCE", {"TERM": 0.3, "KILL": 5.0})
    HereHost.lines, HereHost.folder, HereHost.facts = [], folder, HostFacts(1)
    return HereHost


def no_way(ways: recovery_ways.Ways) -> Any:
    raise LinkError("no way in")


def profile() -> Profile:
    return Profile(
        name="here",
        container=Container(host="ct129", python="/p"),
        proxmox=Proxmox(host="pve1", vmid=129),
        server=Server(model_path="/m"),
        dump=Dump(folder="/dev/shm/x"),
    )


@pytest.fixture
def deaf() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts processes that only KILL ends."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ticks(process: subprocess.Popen[bytes]) -> int:
    found = processes.read(process.pid)
    assert found is not None
    return found.start_ticks


def run(plan: Plan) -> tuple[Outcome, list[StepResult]]:
    steps: list[StepResult] = []
    return recover.run(None, profile(), plan, steps.append), steps


def changing(host: type[HereHost]) -> list[str]:
    """Lines that do more than look."""
    return [
        line for line in host.lines if " hsconsole 0 " not in line and "status" not in line and "ss -ltn" not in line
    ]


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
    outcome, steps = run(plan)
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
    outcome, steps = run(plan)
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
        run(plan)
    assert not [line for line in host.lines if "pct st" in line]


def test_a_pid_that_is_anothers_by_now_is_not_signalled(
    host: type[HereHost], deaf: Callable[[], subprocess.Popen[bytes]]
) -> None:
    bystander = deaf()
    other = HostProcess(bystander.pid, ticks(bystander) - 1, 7, "S", "sglang::x", "sglang::", 0, 9.0, "/", ("x",))
    plan = build(
        Seen(None, HostFacts(1, ("x",), (other,)), "host", prefix=""), profile(), Wish(including_host=(other.pid,))
    )
    _, steps = run(plan)
    assert f"{bystander.pid}:{ticks(bystander) - 1}: gone" in steps[0].detail
    assert bystander.poll() is None


def test_a_host_that_gives_no_answer_ended_nobody(host: type[HereHost], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they count as left, with what the host said instead."""
    monkeypatch.setattr(recover, "PATIENCE", {"TERM": 0.1, "KILL": 0.1})
    monkeypatch.setattr(HereHost, "run", lambda *_: Ran(1, b"Welcome to pve\n", b"fork: Cannot allocate memory\n"))
    other = HostProcess(os.getpid(), 1, 7, "S", "sglang::x", "sglang::", 0, 9.0, "/", ("x",), dump_dir="/dev/shm/x")
    plan = build(Seen(None, HostFacts(1, ("x",), (other,)), "host", prefix=""), profile(), Wish())
    outcome, steps = run(plan)
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
    outcome, steps = run(build(Seen(None, HostFacts(1, ("x",), (other,)), "host", prefix=""), profile(), Wish()))
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
    outcome, steps = run(plan)
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
    outcome, steps = run(build(Seen(None, HostFacts(1), "host", prefix="", sshd_dead=True), profile(), Wish()))
    ok = found == "it listens again"
    assert (steps[-1].detail, steps[-1].ok, outcome.ok) == (found, ok, ok)


def test_an_sshd_that_nobody_could_look_at_is_not_told_to_listen(host: type[HereHost]) -> None:
    plan = build(Seen(None, HostFacts(1), "host", prefix="", sshd_dead=True), profile(), Wish())
    (host.folder / "pct").write_text("#!/bin/sh\necho 'CT 129 not running' >&2\n")
    outcome, steps = run(plan)
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
    outcome, steps = run(plan)
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
    outcome, steps = run(plan)
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
