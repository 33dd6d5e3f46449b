"""What became of an action whose link went: never begun, still running, ended, cut off; and nothing is done twice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.cancel import Cancel
from console.errors import ChangedSincePlan, LinkLost, NoAnswer, NotAsked, OperatorError, Refused
from console.operations import fate
from console.operations.fate import CutOff, NeverBegun, Wait
from remote import audit
from remote.wire import journal
from remote.wire.audit import AuditError, Became, Entry, Fate, Ticket, now
from remote.wire.codec import encode
from remote.wire.plan import Check, Outcome, StepResult, Verdict
from remote.wire.target import Target

TARGET = Target(python="python3", model_path="/m")
TICKET = Ticket("0123456789abcdef", "me@laptop", "kimi")
STEPS = (StepResult("one", True, "first", 0.1), StepResult("two", True, "second", 0.2))
OUTCOME = Outcome("server.stop", True, "Stopped.", (Check("port", Verdict.OK, "free"),))


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(fate, "EVERY", 0.02)


def recorded(work: Callable[[Callable[[Any], None]], Any], ticket: Ticket = TICKET) -> Any:
    return audit.record(TARGET, "server.stop", encode(ticket), lambda _: None, work)


def well(emit: Callable[[Any], None]) -> Outcome:
    for step in STEPS:
        emit(step)
    return OUTCOME


def test_ended_with_its_outcome_and_steps() -> None:
    recorded(well)
    found = audit.fate(TICKET.id)
    assert found.became is Became.ENDED
    assert found.steps == STEPS
    assert found.result == encode(OUTCOME)


def test_ended_with_its_error() -> None:
    def refuse(_: object) -> None:
        raise ChangedSincePlan("pid 8 is new", "Plan again.")

    with pytest.raises(ChangedSincePlan):
        recorded(refuse)
    found = audit.fate(TICKET.id)
    assert found.error == ChangedSincePlan("pid 8 is new", "Plan again.").report()


def test_while_it_runs() -> None:
    def look(_: object) -> Outcome:
        assert audit.fate(TICKET.id).became is Became.RUNNING
        return OUTCOME

    recorded(look)


def test_cut_off_with_its_process(tmp_path: Path) -> None:
    code = """if True:
        import os, sys
        from tests.unit.audit.test_fate import recorded
        recorded(lambda _: os._exit(9))
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert audit.fate(TICKET.id).became is Became.CUT_OFF


def test_an_end_that_could_not_be_noted_is_no_work_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent lives, and would be asked again and again."""
    write = journal.append

    def full(path: str, entry: Entry) -> None:
        if entry.kind == "end":
            raise AuditError("no space left")
        write(path, entry)

    monkeypatch.setattr(journal, "append", full)
    assert recorded(well) == OUTCOME
    assert audit.fate(TICKET.id).became is Became.CUT_OFF


def test_a_process_that_took_its_pid_is_another() -> None:
    own = audit._self()
    for other in ({"start_ticks": own["start_ticks"] + 1}, {"boot_id": "another"}, {"pid": "x"}):
        ident = str(other)
        journal.append(audit.path(), Entry("begin", now(), id=ident, data={"agent": {**own, **other}}))
        assert audit.fate(ident).became is Became.CUT_OFF


def test_what_was_said_to_have_never_begun_never_does() -> None:
    """The call may still come: over a line that was dead, when its operator has long been told."""
    assert audit.fate(TICKET.id).became is Became.NEVER
    ran: list[int] = []
    with pytest.raises(Refused, match="too late"):
        recorded(lambda _: ran.append(1))
    assert not ran
    assert audit.fate(TICKET.id).became is Became.NEVER
    assert recorded(well, Ticket("another", "", "")) == OUTCOME


def test_begun_or_never_but_not_both() -> None:
    """The question and the late call at the same time: what is said is what is done."""
    for number in range(20):
        ticket, ran = Ticket(f"id-{number}", "", ""), threading.Event()

        def begin(ticket: Ticket = ticket, ran: threading.Event = ran) -> None:
            def work(_: object) -> None:
                ran.set()

            try:
                recorded(work, ticket)
            except Refused:
                assert not ran.is_set()

        late = threading.Thread(target=begin)
        late.start()
        time.sleep(number / 10_000)
        said = audit.fate(ticket.id).became
        late.join()
        assert ran.is_set() is (said is not Became.NEVER)


class Line:
    """An agent whose line goes after some steps. fates: what it says on the next links; an error is no link."""

    def __init__(self, cut: OperatorError, *fates: Fate | OperatorError, steps: int = 1) -> None:
        self.cut, self.fates, self.steps = cut, list(fates), steps
        self.asked: list[str] = []

    def call(
        self,
        name: str,
        *,
        timeout: float = 30.0,
        on_event: Callable[[Any], None] | None = None,
        cancel: Cancel | None = None,
        **args: Any,
    ) -> Any:
        self.asked.append(name)
        if name == "audit.fate":
            said = self.fates.pop(0) if len(self.fates) > 1 else self.fates[0]
            if isinstance(said, OperatorError):
                raise said
            return json.loads(json.dumps(encode(said)))
        for step in STEPS[: self.steps]:
            if on_event is not None:
                on_event(encode(step))
        raise self.cut


CUT = LinkLost("silent for 10 s", "Look.")
NO_LINK = NotAsked("lost: connection refused", "")
DONE = Fate(Became.ENDED, "10:00", STEPS, encode(OUTCOME))


def ask(line: Line, wait: Wait | None = None) -> tuple[Any, list[StepResult]]:
    steps: list[StepResult] = []
    return fate.act(line, "run", TICKET, steps.append, timeout=5, wait=wait), steps


@pytest.mark.parametrize(
    ("cut", "title"), [(CUT, fate.LOST), (NoAnswer("run: nothing for 180 s"), fate.SILENT)], ids=["lost", "silent"]
)
def test_it_is_learned_on_the_next_link_and_asked_for_once(cut: OperatorError, title: str) -> None:
    line = Line(cut, NO_LINK, NO_LINK, DONE)
    answer, steps = ask(line)
    assert answer == encode(OUTCOME)
    assert line.asked.count("run") == 1
    titles = [step.title for step in steps]
    assert titles == ["one", title, fate.LEARNED, "two"], "each step once"
    assert cut.args[0] in steps[1].detail


def test_what_still_runs_is_followed() -> None:
    running = Fate(Became.RUNNING, "10:00")
    line = Line(CUT, running, running, NO_LINK, running, DONE)
    answer, steps = ask(line)
    assert answer == encode(OUTCOME)
    assert [step.title for step in steps].count(fate.FOLLOWED) == 1


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (Fate(Became.NEVER), NeverBegun, "never began"),
        (Fate(Became.CUT_OFF, "10:00"), CutOff, "noted no end"),
        (Fate(Became.ENDED, error=Refused("it is Sunday").report()), Refused, "Sunday"),
        (OperatorError("the log can't be read: disk"), LinkLost, "could not be learned: the log can't be read: disk"),
    ],
)
def test_what_did_not_end_well_is_said(said: Fate | OperatorError, kind: type[OperatorError], words: str) -> None:
    with pytest.raises(kind, match=words):
        ask(Line(CUT, said, steps=0))


def test_what_was_seen_to_begin_is_not_said_to_have_never_begun() -> None:
    """Where there was no room for its line in the log."""
    with pytest.raises(LinkLost, match="it had begun, but no log there tells of it") as caught:
        ask(Line(CUT, Fate(Became.NEVER)))
    assert not isinstance(caught.value, NeverBegun)


def test_without_a_link_nothing_is_asked_for_later() -> None:
    line = Line(NO_LINK, DONE)
    with pytest.raises(NotAsked):
        ask(line)
    assert line.asked == ["run"]


@pytest.mark.parametrize("how", ["time is up", "given up"])
def test_the_wait_ends(how: str) -> None:
    wait = Wait(0.1 if how == "time is up" else None)
    if how == "given up":
        threading.Timer(0.1, wait.give_up).start()
    with pytest.raises(LinkLost, match="did not come back") as caught:
        ask(Line(CUT, NO_LINK), wait)
    assert TICKET.id in caught.value.remedy
    assert wait.waiting
