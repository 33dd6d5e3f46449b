"""The canary's last verdict is told of the very process it was on, and of no other."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from remote.processes import Identity
from remote.server import judgement, launch, state, stop
from remote.server.record import boot_id
from remote.wire.errors import OperatorError
from remote.wire.plan import Verdict
from remote.wire.server import Phase
from tests.unit.server.conftest import StandIn


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "hsconsole" / "canary-8000.json"


SERVER = Identity(7, 99)


def kept(monkeypatch: pytest.MonkeyPatch) -> Identity:
    monkeypatch.setattr(judgement, "serving", lambda _: SERVER)
    judgement.keep(8000, SERVER, Verdict.OK)
    return SERVER


def test_it_is_told_with_its_time(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = judgement.last(8000, kept(monkeypatch))
    assert found is not None
    assert found.verdict is Verdict.OK
    assert time.time() - found.at < 60
    assert own.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_it_is_as_old_as_it_is_whatever_becomes_of_the_clock(
    own: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    server, clock = kept(monkeypatch), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + jump)
    found = judgement.last(8000, server)
    assert found is not None
    assert 0 <= time.time() - found.at < 60


@pytest.mark.parametrize("other", [Identity(8, 99), Identity(7, 100)], ids=["pid", "start time"])
def test_not_of_another_process(own: Path, monkeypatch: pytest.MonkeyPatch, other: Identity) -> None:
    kept(monkeypatch)
    assert judgement.last(8000, other) is None
    assert judgement.last(8001, SERVER) is None


def test_not_of_another_boot(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = kept(monkeypatch)
    monkeypatch.setattr(judgement, "boot_id", lambda: "another")
    assert judgement.last(8000, server) is None


@pytest.mark.parametrize("now", [None, Identity(7, 100)], ids=["none", "another"])
def test_a_server_that_went_meanwhile_is_not_judged(
    own: Path, monkeypatch: pytest.MonkeyPatch, now: Identity | None
) -> None:
    monkeypatch.setattr(judgement, "serving", lambda _: now)
    judgement.keep(8000, SERVER, Verdict.OK)
    assert not own.exists()


GOOD = {"pid": 7, "start_ticks": 99, "boot_id": boot_id()}
DAMAGE = {
    "not JSON": "{",
    "no object": "[]",
    "a number": "7",
    "nothing kept": json.dumps(GOOD),
    "no verdict": json.dumps({**GOOD, "judgement": {"verdict": "perhaps", "at": 1.0}}),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_note_is_none(own: Path, text: str) -> None:
    own.parent.mkdir(mode=0o700)
    own.write_text(text)
    assert judgement.last(8000, SERVER) is None


def test_where_nothing_can_be_written_the_canary_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise OperatorError("no place")

    monkeypatch.setattr(judgement, "state_dir", nowhere)
    assert judgement.last(8000, kept(monkeypatch)) is None


def test_the_state_of_a_server_has_it_until_the_next_start(stand_in: StandIn) -> None:
    target = stand_in.target
    stand_in.says("200")

    def start() -> None:
        assert launch.start(target, launch.plan(target).basis, lambda _: None).ok
        stand_in.reaches(Phase.READY)

    start()
    assert state.read(target).canary is None
    judgement.keep(target.port, judgement.serving(target.port), Verdict.BAD)
    found = state.read(target)
    assert found.canary is not None
    assert found.canary.verdict is Verdict.BAD
    assert state._essence(found) != state._essence(dataclasses.replace(found, canary=None)), "a change that is told"
    assert stop.stop(target, stop.plan(target).basis, lambda _: None).ok
    assert state.read(target).canary is None
    stand_in.says("200")
    start()
    assert state.read(target).canary is None
