"""`hsconsole server restart`: which command it starts, where the profile and what runs say otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from console.cli import server, session
from console.config import write
from console.config.profile import Container, Profile, Server
from console.errors import Refused
from console.operations.calls import Agent
from console.operations.restart import AS_IT_RUNS, BY_PROFILE
from remote.wire.codec import encode
from remote.wire.plan import Plan
from tests.unit.commandline import exit_status

PROFILE = Profile(name="p", container=Container(host="ct", python="/p"), server=Server(model_path="/m"))


class Differs:
    """An agent whose plans tell of a difference. planned: the actions that it was asked to plan."""

    def __init__(self, *differs: str) -> None:
        self.differs = list(differs)
        self.planned: list[str] = []

    def call(self, name: str, **args: Any) -> Any:
        assert name == "plan", "nothing may run"
        self.planned.append(args["action"])
        return encode(Plan(args["action"], "Restart", needed=True, basis={"differs": self.differs}))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Differs:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    write.write(PROFILE)
    made = Differs("with --dtype half")

    @contextlib.contextmanager
    def open_agent(profile: Profile) -> Iterator[Agent]:
        yield made

    monkeypatch.setattr(session, "open_agent", open_agent)
    return made


def restart(*words: str) -> int:
    return exit_status("--profile", "p", "server", "restart", *words)


@pytest.mark.parametrize(
    ("words", "planned"),
    [(["--as-it-runs"], AS_IT_RUNS), (["--by-profile"], BY_PROFILE)],
)
def test_it_is_as_it_was_said(agent: Differs, words: list[str], planned: str) -> None:
    assert restart("--dry-run", *words) == 0
    assert agent.planned == [planned]


@pytest.mark.parametrize("words", [["--yes"], ["--dry-run"], ["--json", "--yes"]])
def test_with_nobody_to_ask_it_is_refused(agent: Differs, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert restart(*words) == Refused.exit_code
    said = "".join(capsys.readouterr())
    assert "with --dtype half" in said
    assert "--as-it-runs or --by-profile" in said


def test_without_a_difference_nothing_is_asked(agent: Differs) -> None:
    agent.differs = []
    assert restart("--dry-run") == 0
    assert set(agent.planned) == {AS_IT_RUNS}


@pytest.mark.parametrize(("says", "planned"), [(True, BY_PROFILE), (False, AS_IT_RUNS)])
def test_the_operator_is_asked(monkeypatch: pytest.MonkeyPatch, says: bool, planned: str) -> None:
    monkeypatch.setattr(click, "confirm", lambda *_, **__: says)
    plan = Plan(AS_IT_RUNS, "Restart", needed=True, basis={"differs": ["with --dtype half"]})
    assert server._asked(plan, ask=True) == planned
