"""`hsconsole server start --wait` on an agent of the tests: when the canary follows, and what is told of it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.cli import main, recovery, session
from console.config import write
from console.config.profile import Container, Profile, Server
from console.errors import LinkLost
from console.operations import calls, fate, follow, readiness, recover, verdicts
from remote.canary import tolerance
from remote.dumps import generate, request
from remote.wire.audit import Became, Fate
from remote.wire.codec import encode
from remote.wire.dumps import Canary, DumpTest, Level, Verified, VerifyProgress, VerifyResult, VerifySummary
from remote.wire.plan import Check, OnStep, Outcome, Plan, StepResult, Verdict
from remote.wire.server import Judgement, LogLines, Phase, ServerState
from tests.unit.commandline import exit_status

PROFILE = Profile(name="kimi", container=Container(host="ct", python="/p"), server=Server(model_path="/m"))
PLAN = Plan("server.start", "Start SGLang", needed=True)
STARTED = Outcome("server.start", True, "Started on port 8000, loading.")
FAILED = Outcome("server.start", False, "The server ended right after its start.")


def state(phase: Phase = Phase.READY, **more: Any) -> ServerState:
    return ServerState(phase, phase.value, 0.0, 8000, pid=7, **{"patch_loaded": "3", **more})


def canary(verdict: Verdict) -> Canary:
    checks = (Check("prompt", Verdict.OK, "req_1: 96 tokens"), Check("prefix", verdict, "worst 0.1, tolerance 0.12"))
    return Canary(verdict, 90.0, (1, 2), checks, tolerances=tolerance.told("bfloat16"))


class Agent:
    """states: of the server, one after the other. Errors are raised."""

    def __init__(self, *states: Any, canary: Any = None, outcome: Any = STARTED, plan: Plan = PLAN) -> None:
        self.states = list(states)
        self.answers = {"plan": plan, "run": outcome, "canary": canary}
        self.asked: list[str] = []
        self.patience: dict[str, float] = {}

    def call(
        self, name: str, *, timeout: float = 30.0, on_event: Callable[[Any], None] | None = None, **args: Any
    ) -> Any:
        self.asked.append(name)
        self.patience[name] = timeout
        answer = self.states.pop(0) if name == "server.state" else self.answers[name]
        if isinstance(answer, BaseException):
            raise answer
        if name == "canary" and on_event is not None:
            for check in answer.checks:
                on_event(encode(StepResult(check.name, check.verdict is Verdict.OK, check.found, 1.0)))
        return encode(answer)


Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Run `server start`, or another command of it, with these arguments on this agent; the exit status."""
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("time.sleep", lambda _: None)
    write.write(PROFILE)

    def run(agent: Agent, *arguments: str, command: str = "start") -> int:
        @contextlib.contextmanager
        def open_agent(_: Profile) -> Iterator[Agent]:
            yield agent

        monkeypatch.setattr(session, "open_agent", open_agent)
        monkeypatch.setattr(recovery, "open_agent", open_agent)
        return exit_status("--profile", "kimi", "server", command, "--yes", *arguments)

    return run


ENDS = {
    Verdict.OK: (0, "well in 1:30: the dumps of this server mean what they should"),
    Verdict.WARN: (1, "in doubt in 1:30: look at what is marked; look at req_1, req_2"),
    Verdict.BAD: (1, "faulty in 1:30: do NOT use the dumps of this server; look at req_1, req_2"),
    Verdict.UNKNOWN: (1, "unknown in 1:30: not everything could be looked at; look at req_1, req_2"),
}


@pytest.mark.parametrize("verdict", ENDS)
def test_the_canary_follows_a_start_that_is_waited_for(
    verdict: Verdict, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = ENDS[verdict]
    agent = Agent(state(Phase.LOADING), state(), canary=canary(verdict))
    assert start(agent, "--wait") == status
    said = capsys.readouterr().out
    assert "Canary: four requests; the first one after a start compiles kernels" in said
    assert "prefix  worst 0.1, tolerance 0.12" in said
    assert "Tolerances: bfloat16 rows within 0.12 for all but 10% of rows: 32 roundoffs, of which" in said
    assert "seen with SGLang" in said
    assert said.endswith(f"{told}\n")
    agent = Agent(state(), canary=canary(verdict))
    assert start(agent, "--wait", "--json") == status
    document = json.loads(capsys.readouterr().out)
    assert document["canary"]["verdict"] == verdict.value
    assert document["canary"]["tolerances"] == tolerance.told("bfloat16")
    assert [step["title"] for step in document["canary_steps"]] == ["prompt", "prefix"]
    assert document["no_canary"] == ""


@contextlib.contextmanager
def nobody_reads() -> Iterator[None]:
    """Standard output is a pipe whose reader has left."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as stream, contextlib.redirect_stdout(stream):
        yield


WHOLE = ["plan", "run", "server.state", "server.state", "canary"]
UNREAD: dict[str, tuple[tuple[str, ...], Agent, int, list[str]]] = {
    "a failed action": ((), Agent(outcome=FAILED), 1, ["plan", "run"]),
    "a failed start waits for nothing": (("--wait",), Agent(outcome=FAILED), 1, ["plan", "run"]),
    "faulty": (("--wait",), Agent(state(Phase.LOADING), state(), canary=canary(Verdict.BAD)), 1, WHOLE),
    "well": (("--wait",), Agent(state(Phase.LOADING), state(), canary=canary(Verdict.OK)), 0, WHOLE),
}


@pytest.mark.parametrize("end", UNREAD)
def test_an_action_that_nobody_reads_of_goes_on_and_its_status_says_its_end(end: str, start: Start) -> None:
    arguments, agent, status, asked = UNREAD[end]
    with nobody_reads():
        assert start(agent, *arguments) == status
    assert agent.asked == asked


def verified(_: Any, __: Any, ___: Any, ____: Any, on_progress: Callable[[VerifyProgress], None]) -> VerifySummary:
    for number in range(3):
        on_progress(VerifyProgress((VerifyResult(number, Verified.BAD, Level.MEANING),), number + 1, 3))
    return VerifySummary(Level.MEANING, False, {"bad": 3}, 0, 0.0)


@pytest.mark.parametrize(
    "command", [("canary",), ("dumps", "test"), ("dumps", "verify", "--all", "--level", "meaning")]
)
def test_whatever_is_looked_at_is_looked_at_to_its_end(
    command: tuple[str, ...], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "dumps_verify", verified)
    agent = Agent(canary=canary(Verdict.BAD))
    agent.answers["dumps.test"] = DumpTest(False, "rid", 1.0, 1, (Check("values", Verdict.BAD, "all are 0"),))

    @contextlib.contextmanager
    def session_of(_: Any) -> Iterator[tuple[Agent, Profile]]:
        yield agent, PROFILE

    for module in ("canary", "dumps", "verify"):
        monkeypatch.setattr(f"console.cli.{module}.session", session_of)
    with nobody_reads(), pytest.raises(SystemExit) as ended:
        main.run([*command])
    assert ended.value.code == 1


def test_a_log_that_nobody_reads_is_followed_no_longer(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks: list[int] = []

    def log(_: Any, __: Any, on_lines: Callable[[LogLines], None]) -> None:
        for number in range(100):
            chunks.append(number)
            on_lines(LogLines(("a line",), "/log"))

    @contextlib.contextmanager
    def session_of(_: Any) -> Iterator[tuple[Agent, Profile]]:
        yield Agent(), PROFILE

    monkeypatch.setattr("console.cli.server.session", session_of)
    monkeypatch.setattr(follow, "log", log)
    with nobody_reads():
        assert main.run(["server", "logs", "--follow"]) == 0
    assert len(chunks) == 1


NONE: dict[str, tuple[Agent, int, str]] = {
    "it dumps nothing": (Agent(state(patch_loaded=None)), 0, "No canary: this server dumps nothing"),
    "it died as it loaded": (Agent(state(Phase.LOADING), state(Phase.CRASHED, cause="CUDA OOM")), 1, "CUDA OOM"),
    "it ended at once": (Agent(outcome=FAILED), 1, "ended right after its start"),
    "the link is lost as it loads": (Agent(state(Phase.LOADING), LinkLost("it broke")), 4, "it broke"),
    "the operator ends the wait": (Agent(state(Phase.LOADING), KeyboardInterrupt()), 130, "Interrupted"),
    "it ran, and was proved": (
        Agent(state(canary=Judgement(Verdict.OK, 1.0)), plan=Plan("server.start", "It runs", needed=False)),
        0,
        "No canary: there was one since this start: well",
    ),
    "it ran, and was found faulty": (
        Agent(state(canary=Judgement(Verdict.BAD, 1.0)), plan=Plan("server.start", "It runs", needed=False)),
        1,
        "No canary: there was one since this start: faulty",
    ),
}


@pytest.mark.parametrize("why", NONE)
def test_none_follows_where(why: str, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    agent, status, told = NONE[why]
    assert start(agent, "--wait") == status
    said = capsys.readouterr()
    assert told in said.out + said.err
    assert "canary" not in agent.asked


def test_a_start_is_told_whatever_becomes_of_the_wait(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(Agent(state(Phase.LOADING), LinkLost("it broke")), "--wait", "--json") == 4
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"]["summary"] == STARTED.summary
    assert document["error"]["what"] == "it broke"


def test_what_was_done_before_an_error_is_told_in_json_too(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: Any, __: Any, ___: Any, on_step: OnStep) -> Outcome:
        on_step(StepResult("TERM to pid 7", True))
        raise LinkLost("it broke")

    monkeypatch.setattr(calls, "run", run)
    assert start(Agent(), "--json") == 4
    document = json.loads(capsys.readouterr().out)
    assert ([step["title"] for step in document["steps"]], document["outcome"]) == (["TERM to pid 7"], None)
    assert document["error"]["what"] == "it broke"
    monkeypatch.setattr(recover, "plan", lambda *_: PLAN)
    monkeypatch.setattr(recover, "run", run)
    assert start(Agent(), "--json", command="recover") == 4
    recovered = json.loads(capsys.readouterr().out)
    assert (recovered["steps"], recovered["error"]) == (document["steps"], document["error"])


def test_the_wait_goes_on_over_another_line_when_the_first_one_went(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, next_one = Agent(), Agent(state(), canary=canary(Verdict.OK))
    again = {gone: next_one}
    monkeypatch.setattr(fate, "again", lambda agent: contextlib.nullcontext(again.get(agent, agent)))
    assert start(gone, "--wait") == 0
    assert (gone.asked, next_one.asked) == (["plan", "run"], ["server.state", "canary"])


def test_what_becomes_of_the_link_of_a_canary_is_told_at_once(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each of it once, also where nothing else comes."""
    monkeypatch.setattr(fate, "EVERY", 0.01)
    agent = Agent(state(), canary=LinkLost("it broke"))
    agent.answers["audit.fate"] = Fate(Became.CUT_OFF, "10:00")
    assert start(agent, "--wait") == LinkLost.exit_code
    said = capsys.readouterr().out
    assert [said.count(f" {title} (") for title in fate.TITLES] == [1, 0, 0, 1]


def test_a_server_that_ran_unproved_is_proved(start: Start) -> None:
    agent = Agent(state(), canary=canary(Verdict.OK), plan=Plan("server.start", "It runs", needed=False))
    assert start(agent, "--wait") == 0
    assert "canary" in agent.asked


@pytest.mark.parametrize("verdict", ENDS)
def test_a_restart_ends_as_a_start_does(verdict: Verdict, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent(state(), canary=canary(verdict), plan=Plan("server.restart", "Restart SGLang", needed=True))
    assert start(agent, "--wait", command="restart") == ENDS[verdict][0]
    assert capsys.readouterr().out.endswith(f"{ENDS[verdict][1]}\n")
    assert start(Agent(), command="restart") == 0
    assert capsys.readouterr().out.endswith("hsconsole canary. With --wait that follows by itself.\n")


def test_a_start_that_is_not_waited_for_is_not_followed(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    agent = Agent()
    assert start(agent) == 0
    assert agent.asked == ["plan", "run"]
    assert capsys.readouterr().out.endswith("hsconsole canary. With --wait that follows by itself.\n")


def test_a_read_only_profile_leaves_no_request() -> None:
    profile = Profile(name="ro", read_only=True, container=PROFILE.container, server=PROFILE.server)
    assert "read-only" in readiness.why_no_canary(profile, state())


TOLD = {
    "well": (state(canary=Judgement(Verdict.OK, -200.0)), "well, 3:20 ago: the dumps of this server mean what"),
    "faulty": (state(canary=Judgement(Verdict.BAD, 5.0)), "faulty, 0.0 s ago: do NOT use"),
    "none": (state(), "none since this start: hsconsole canary"),
    "nothing is dumped": (state(patch_loaded=None), ""),
    "it loads": (state(Phase.LOADING), ""),
}


@pytest.mark.parametrize("case", TOLD)
def test_status_tells_the_last_one(case: str) -> None:
    seen, told = TOLD[case]
    assert verdicts.last_told(seen).startswith(told)
    assert bool(verdicts.last_told(seen)) == bool(told)


def test_the_console_waits_longer_than_the_agent_does(start: Start) -> None:
    agent = Agent(state(), canary=canary(Verdict.OK))
    start(agent, "--wait")
    assert agent.patience["canary"] == calls.REQUEST > generate.ANSWER_S + request.DUMP_S
    assert generate.ANSWER_S > 120, "so long the first request after a start was seen to take on GPUs"
