"""A server whose /health is well and whose requests hang is not ready: whoever asks for a token finds out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from console.operations.recovery_plan import build
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import Wish
from remote import processes
from remote.dumps.generate import Generate
from remote.server import answering, find, judgement, probe, progress, record, state, suspects
from remote.wire.plan import Verdict
from remote.wire.server import Judgement, Phase
from tests.unit.operations.herehost import profile
from tests.unit.server.conftest import StandIn, start


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "DEADLINE", 0.5)
    monkeypatch.setattr(progress, "BETWEEN_LOGS", 60.0)  # however slow the machine


def answers(stand_in: StandIn) -> None:
    """However slow the machine."""
    stand_in.says("200")
    with pytest.MonkeyPatch.context() as patient:
        patient.setattr(probe, "DEADLINE", 60.0)
        assert probe.ask_for_a_token(stand_in.target).verdict is Verdict.OK


def ready(stand_in: StandIn, says: str) -> None:
    start(stand_in.target)
    stand_in.says(says)
    stand_in.reaches(Phase.READY)


def warm(stand_in: StandIn, says: str) -> None:
    """It has answered once, and now does as it says."""
    ready(stand_in, "200")
    answers(stand_in)
    stand_in.says(says)


def line(batch: str, ago: float = 0.0) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - ago))
    return f"[{at} TP0] {batch}, #running-req: 1, #queue-req: 0"


def logs(stand_in: StandIn, batch: str, ago: float = 0.0) -> None:
    with Path(record.log_path(stand_in.target.port)).open("a") as log:
        log.write(line(batch, ago) + "\n")


def known(stand_in: StandIn) -> Judgement | None:
    return answering.last(stand_in.target.port, judgement.serving(stand_in.target.port))


def test_one_that_answers_is_well(stand_in: StandIn) -> None:
    ready(stand_in, "200")
    answers(stand_in)
    assert state.read(stand_in.target).phase is Phase.READY
    assert not Path(stand_in.target.dump_dir).exists()


def test_one_that_does_not_is_not_ready_until_it_works_again(stand_in: StandIn) -> None:
    warm(stand_in, "deaf")
    found = probe.ask_for_a_token(stand_in.target)
    assert (found.verdict, bool(found.remedy)) == (Verdict.BAD, True)
    assert "answers /health, but not requests" in found.found
    seen = state.read(stand_in.target)
    assert (seen.phase, seen.health_status) == (Phase.UNHEALTHY, 200)
    assert "answers /health, but not requests" in seen.detail
    logs(stand_in, "Prefill batch, #new-token: 10")
    assert state.read(stand_in.target).phase is Phase.READY
    answers(stand_in)


@pytest.mark.parametrize(
    ("batch", "ago", "busy"),
    [
        ("Decode batch", 0, True),
        ("Prefill batch, #new-seq: 1, #new-token: 4096", 0, True),
        ("Prefill batch, #new-seq: 9, #new-token: 131072", 100, True),  # one long pass
        ("Prefill batch, #new-seq: 1, #new-token: 10", 100, False),
        ("Prefill batch, #new-seq: 1, #new-token: 1", 0, False),  # the probe's own, begun and not ended
        ("Decode batch", 100, False),
        ("Load weight end.", 0, False),
    ],
)
def test_a_log_tells_busy_from_hung(batch: str, ago: float, busy: bool) -> None:
    assert (progress.busy_until([line(batch, ago)]) >= time.time()) is busy


def test_one_that_works_on_others_is_busy_not_hung(stand_in: StandIn) -> None:
    warm(stand_in, "deaf")
    logs(stand_in, "Decode batch")
    assert probe.ask_for_a_token(stand_in.target).verdict is Verdict.WARN
    assert state.read(stand_in.target).phase is Phase.READY


def test_before_its_first_answer_it_may_compile_kernels_for_minutes(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(stand_in, "deaf")
    for _ in range(2):
        found = probe.ask_for_a_token(stand_in.target)
        assert (found.verdict, "kernels" in found.found) == (Verdict.UNKNOWN, True)
    first = known(stand_in)
    assert first is not None
    until = time.strftime("%H:%M:%S", time.localtime(first.at + answering.FIRST))
    assert f"may be well until {until}: kernels" in found.found
    facts = suspects.facts(stand_in.target)
    assert (facts.phase, "kernels" in facts.detail) == (Phase.READY, True)
    plan = build(Seen(facts), profile(), Wish())
    assert (plan.needed, "kernels" in plan.notes[0]) == (False, True)
    monkeypatch.setattr(answering, "FIRST", 0.1)  # since the first of them
    assert probe.ask_for_a_token(stand_in.target).verdict is Verdict.BAD
    assert state.read(stand_in.target).phase is Phase.UNHEALTHY


def test_one_that_is_in_a_long_pass_is_no_case(stand_in: StandIn) -> None:
    """It was asked by others alone, and works on a prompt of somebody's that its log tells of only behind it."""
    ready(stand_in, "deaf")
    for batch in ("Prefill batch, #new-token: 10", "Decode batch"):
        logs(stand_in, batch, ago=600)
    assert probe.ask_for_a_token(stand_in.target).verdict is Verdict.UNKNOWN
    facts = suspects.facts(stand_in.target)
    assert (facts.phase, build(Seen(facts), profile(), Wish()).needed) == (Phase.READY, False)


@pytest.mark.parametrize(("ago", "told"), [(600, Verdict.BAD), (100, Verdict.UNKNOWN)])
def test_one_that_works_between_two_requests_is_given_its_time_again(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, ago: float, told: Verdict
) -> None:
    ready(stand_in, "deaf")
    logs(stand_in, "Decode batch", ago)
    monkeypatch.setattr(answering, "last", lambda *_: Judgement(Verdict.UNKNOWN, time.time() - 400))
    assert probe.ask_for_a_token(stand_in.target).verdict is told


def test_every_request_tells(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test request and the canary's are sent so too."""
    monkeypatch.setattr(answering, "FIRST", 0.3)
    ready(stand_in, "deaf")
    for says, told in (("deaf", Verdict.BAD), ("closes", Verdict.BAD), ("200", Verdict.OK), ("closes", Verdict.OK)):
        stand_in.says(says)
        server = Generate(stand_in.target, 0.5 if says == "deaf" else 60.0)
        server.send([1, 2], "rid")
        server.answer()
        last = known(stand_in)
        assert last is not None
        assert last.verdict is told
        assert (state.read(stand_in.target).phase is Phase.READY) is (told is Verdict.OK)


@pytest.mark.parametrize(("says", "found"), [("loading", "refused"), ("503", "503")])
def test_one_that_is_not_ready_is_not_asked(stand_in: StandIn, says: str, found: str) -> None:
    assert probe.ask_for_a_token(stand_in.target).verdict is Verdict.UNKNOWN
    start(stand_in.target)
    stand_in.says(says)
    if says == "503":
        stand_in.reaches(Phase.STARTING)
    check = probe.ask_for_a_token(stand_in.target)
    assert (check.verdict, found in check.found) == (Verdict.UNKNOWN, True)


def test_one_that_closes_is_neither_well_nor_hung(stand_in: StandIn) -> None:
    ready(stand_in, "closes")
    check = probe.ask_for_a_token(stand_in.target)
    assert (check.verdict, "closed the connection" in check.found) == (Verdict.WARN, True)
    assert known(stand_in) is None


def test_where_it_would_make_a_dump_it_is_not_asked(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "RIDS_FROM", (99, 0, 0))
    ready(stand_in, "deaf")
    check = probe.ask_for_a_token(stand_in.target)
    assert (check.verdict, "would make a dump" in check.found) == (Verdict.UNKNOWN, True)
    assert state.read(stand_in.target).phase is Phase.READY


def test_without_its_log_nobody_can_tell(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    warm(stand_in, "deaf")
    monkeypatch.setattr(processes, "output_file", lambda _: None)  # it writes to a terminal
    assert probe.ask_for_a_token(stand_in.target).verdict is Verdict.UNKNOWN
    assert find.find(stand_in.target).parent is not None


def test_a_recovery_knows_it(stand_in: StandIn) -> None:
    warm(stand_in, "deaf")
    facts = suspects.facts(stand_in.target)
    assert (facts.phase, "not requests" in facts.detail) == (Phase.UNHEALTHY, True)
    assert build(Seen(facts), profile(), Wish()).needed


def test_what_was_found_is_of_that_server_alone(stand_in: StandIn) -> None:
    warm(stand_in, "deaf")
    serving = judgement.serving(stand_in.target.port)
    assert serving is not None
    assert judgement.last(stand_in.target.port, serving, judgement.REQUESTS) is not None
    assert judgement.last(stand_in.target.port, serving) is None  # that is the canary's
    assert answering.last(stand_in.target.port, serving._replace(start_ticks=serving.start_ticks + 1)) is None
