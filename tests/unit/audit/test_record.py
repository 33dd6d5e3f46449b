"""Every action leaves a begin and an end in both logs, with one id; a log that can't be written stops none of them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console import audit
from console.cancel import Cancel
from console.config.profile import Container, Profile, Server
from console.errors import ChangedSincePlan, LinkLost, OperatorError, Refused
from console.operations import calls
from console.operations.fate import Wait
from remote.agent import calls as agent_calls
from remote.agent.calls import CALLS, Action, Context
from remote.canary import replay
from remote.server import record
from remote.wire import chain
from remote.wire.audit import Entry
from remote.wire.codec import encode
from remote.wire.dumps import Canary, DumpTest, Level, VerifySummary
from remote.wire.plan import Check, Outcome, Plan, Step, StepResult, Verdict

SECRET = "hf_verysecret"
PROFILE = Profile(
    name="kimi",
    container=Container(host="ct", python=sys.executable),
    server=Server(model_path="/m", flags=("--api-key sk-other-secret",), env={"HF_TOKEN": SECRET}),
)
PLAN = Plan(
    "server.stop",
    "Stop SGLang on port 8000",
    needed=True,
    steps=(Step("Ask it to end", f"kill -TERM 7 # --api-key {SECRET}"), Step("Look again")),
    losses=("The load: it took 14 min.",),
    basis={"processes": [[7, 99]]},
)
STEP = StepResult("Ask it to end", True, f"TERM to pid 7 ({SECRET})", 0.5)
OUTCOME = Outcome("server.stop", True, "Stopped.", (Check("port", Verdict.OK, "free"),))


class Direct:
    """The agent's own table, asked as over the link: everything crosses as JSON."""

    def __init__(self) -> None:
        self.lost: OperatorError | None = None
        self.comes_back = True

    def call(
        self,
        name: str,
        *,
        timeout: float = 30.0,
        on_event: Callable[[Any], None] | None = None,
        cancel: Cancel | None = None,
        **args: Any,
    ) -> Any:
        def emit(value: Any) -> None:
            if on_event is not None:
                on_event(json.loads(json.dumps(encode(value))))

        context = Context(PROFILE.target, emit, threading.Event())
        answer = CALLS[name](context, **json.loads(json.dumps(encode(args))))
        if self.lost is not None and not (self.comes_back and name == "audit.fate"):
            raise self.lost
        return json.loads(json.dumps(encode(answer)))


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "laptop"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "container"))
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.7 5 10.0.0.9 22")

    def stop(target: object, basis: dict[str, Any], step: Callable[[StepResult], None]) -> Outcome:
        assert laptop()[-1].kind == container()[-1].kind == "begin"  # on disk before anything is done
        step(STEP)
        return OUTCOME

    monkeypatch.setitem(agent_calls.ACTIONS, "server.stop", Action(lambda target: PLAN, stop))
    return tmp_path


def laptop() -> list[Entry]:
    path = str(audit.path_of("kimi"))
    assert chain.verify(path).ok
    return [one for one in chain.last(path, 1000).entries if one.id]


def container() -> list[Entry]:
    assert calls.audit_chain(Direct()).ok
    return [one for one in calls.audit_entries(Direct(), 1000).entries if one.id]


def test_a_run_is_told_whole_in_both_logs(places: Path) -> None:
    told: list[StepResult] = []
    assert calls.run(Direct(), PROFILE, PLAN, told.append) == OUTCOME
    assert told == [STEP]
    begin, end = laptop()
    there_begin, there_end = container()
    assert {begin.id, end.id, there_begin.id, there_end.id} == {begin.id}
    assert [one.kind for one in (begin, end, there_begin, there_end)] == ["begin", "end"] * 2
    assert begin.who == audit.operator() == there_begin.data["operator"]
    assert there_begin.who.endswith("from 10.0.0.7")
    assert (begin.action, begin.profile, there_begin.profile) == ("server.stop", "kimi", "kimi")
    assert begin.data["title"] == PLAN.title
    assert begin.data["steps"][0]["command"] == "kill -TERM 7 # --api-key •••"
    assert begin.data["losses"] == list(PLAN.losses)
    assert begin.data["basis"] == there_begin.data["basis"] == PLAN.basis
    assert there_begin.data["commands"] == ["kill -TERM 7 # --api-key •••"]
    for ended in (end, there_end):
        assert ended.data["ok"] is True
        assert ended.data["result"] == encode(OUTCOME)
        assert ended.data["steps"][0]["detail"] == "TERM to pid 7 (•••)"
    written = [path.read_text() for path in places.rglob("*.jsonl")]
    assert len(written) == 2
    assert not any(secret in text for text in written for secret in (SECRET, "sk-other-secret"))


SUMMARY = VerifySummary(Level.MEANING, True, {}, 0, 0.1)
ASKED: dict[str, tuple[Any, Callable[[calls.Agent], Any]]] = {
    "dumps.test": (
        DumpTest(True, "rid", 0.1, 1, ()),
        lambda agent: calls.dump_test(agent, PROFILE, lambda _: None),
    ),
    "canary": (Canary(Verdict.OK, 0.1, (1,), ()), lambda agent: calls.canary(agent, PROFILE, lambda _: None)),
}


def verify_meaning() -> VerifySummary:
    return calls.dumps_verify(Direct(), PROFILE, [1], Level.MEANING, lambda _: None)


def test_a_verification_that_asks_the_server_is_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "run", lambda *_: SUMMARY)
    assert verify_meaning() == SUMMARY
    for log in (laptop(), container()):
        assert [(one.kind, one.action) for one in log] == [("begin", "dumps.verify"), ("end", "dumps.verify")]


def test_reading_dumps_leaves_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = VerifySummary(Level.CONTENT, True, {}, 0, 0.1)
    monkeypatch.setattr(replay, "run", lambda *_: summary)
    assert calls.dumps_verify(Direct(), PROFILE, None, Level.CONTENT, lambda _: None) == summary
    assert laptop() == []
    assert container() == []


@pytest.mark.parametrize("name", ["dumps.test", "canary"])
def test_a_test_request_and_a_canary_are_actions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, ask = ASKED[name]
    monkeypatch.setitem(CALLS, name, agent_calls._recorded(name, lambda *_: answer))
    assert ask(Direct()) == answer
    for log in (laptop(), container()):
        assert [(one.kind, one.action) for one in log] == [("begin", name), ("end", name)]


def test_an_error_is_the_end_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Outcome:
        raise ChangedSincePlan("pid 8 is new", "Plan again.")

    monkeypatch.setitem(agent_calls.ACTIONS, "server.stop", Action(lambda _: PLAN, refuse))
    with pytest.raises(ChangedSincePlan):
        calls.run(Direct(), PROFILE, PLAN, lambda _: None)
    for log in (laptop(), container()):
        assert log[-1].data["ok"] is False
        assert log[-1].data["error"]["id"] == "refused.changed"


def test_a_link_lost_midway_ends_as_the_container_says() -> None:
    agent = Direct()
    agent.lost = LinkLost("silent for 10 s")
    assert calls.run(agent, PROFILE, PLAN, lambda _: None) == OUTCOME
    assert [one.kind for one in container()] == ["begin", "end"]
    assert laptop()[-1].data["ok"] is container()[-1].data["ok"] is True


def test_a_link_that_does_not_come_back_leaves_the_laptop_without_the_end() -> None:
    """The laptop does not know how it ended; the container does."""
    agent = Direct()
    agent.lost, agent.comes_back = LinkLost("silent for 10 s"), False
    with pytest.raises(LinkLost, match="could not be learned"):
        calls.run(agent, PROFILE, PLAN, lambda _: None, Wait(0.0))
    assert laptop()[-1].data["error"]["id"] == "link.lost"
    assert container()[-1].data["ok"] is True


def test_an_interrupted_action_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(on_step: object, ticket: object) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit.record(PROFILE, "server.recover", interrupt, lambda _: None)
    assert laptop()[-1].data["error"]["title"] == "KeyboardInterrupt"


@pytest.mark.parametrize("side", ["laptop", "container"])
def test_a_log_that_can_not_be_written_stops_nothing_and_is_said(
    places: Path, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = {"laptop": audit.path_of("kimi"), "container": places / "container" / "hsconsole" / "audit.jsonl"}[side]
    log.mkdir(parents=True)

    told: list[StepResult] = []
    monkeypatch.setitem(agent_calls.ACTIONS, "server.stop", Action(lambda _: PLAN, lambda *_: OUTCOME))
    assert calls.run(Direct(), PROFILE, PLAN, told.append) == OUTCOME
    assert [step.ok for step in told] == [False, False]
    assert "begin could NOT be recorded" in told[0].detail
    assert str(log) in told[0].detail


def test_a_verification_says_so_in_its_summary(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "container" / "hsconsole" / "audit.jsonl").mkdir(parents=True)
    monkeypatch.setattr(replay, "run", lambda *_: SUMMARY)
    assert "could NOT be recorded" in verify_meaning().note


def test_two_operators_meet_in_the_containers_log(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ann@mac", "bob@desk"):
        monkeypatch.setattr(audit, "operator", lambda name=name: name)
        calls.run(Direct(), PROFILE, PLAN, lambda _: None)
    assert [one.data["operator"] for one in container() if one.kind == "begin"] == ["ann@mac", "bob@desk"]


def test_an_action_holds_the_lock_for_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(target: object, basis: dict[str, Any], step: Callable[[StepResult], None]) -> Outcome:
        with record.lock(8000, "is stopping"), record.lock(8000, "is stopping"):
            return OUTCOME

    monkeypatch.setitem(agent_calls.ACTIONS, "server.stop", Action(lambda target: PLAN, stop))
    monkeypatch.setattr(audit, "operator", lambda: "ann@mac")
    with pytest.raises(Refused, match=r"port 8000: ann@mac \(.* from 10\.0\.0\.7\) is stopping the server \(since "):
        calls.run(Direct(), PROFILE, PLAN, lambda _: None)
