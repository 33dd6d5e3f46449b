"""`hsconsole server recover`: shown, confirmed (a last resort by its word) and told as every other action is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.cli import recovery
from console.config import write
from console.config.profile import Container, Profile, Proxmox, Server
from console.errors import HostKeyChanged, LinkError
from console.operations import recover
from console.operations.recovery_wish import ACTION, Wish
from remote.wire.plan import Check, Outcome, Plan, Step, StepResult, Verdict
from tests.unit.commandline import exit_status

PROFILE = Profile(
    name="p",
    container=Container(host="ct", python="/p"),
    server=Server(model_path="/m"),
    proxmox=Proxmox(host="pve1", vmid=129),
)
OUTCOME = Outcome(ACTION, ok=False, summary="Not recovered.", checks=(Check("port", Verdict.BAD, "held"),))


class Recovery:
    """What is asked of the operation. link: what the link does instead of opening."""

    def __init__(self) -> None:
        self.link: LinkError | None = None
        self.word = ""
        self.wish = Wish()
        self.agents: list[object] = []
        self.ran = 0

    def plan(self, agent: object, _: Profile, wish: Wish) -> Plan:
        self.agents.append(agent)
        self.wish = wish
        return Plan(ACTION, "Free port 8000", needed=True, steps=(Step("End it", "kill -TERM 7"),), word=self.word)

    def run(self, agent: object, _: Profile, plan: Plan, on_step: Any) -> Outcome:
        self.ran += 1
        on_step(StepResult("End it", ok=True))
        return OUTCOME

    @contextlib.contextmanager
    def open_agent(self, _: Profile) -> Iterator[object]:
        if self.link is not None:
            raise self.link
        yield "the link"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    write.write(PROFILE)
    made = Recovery()
    monkeypatch.setattr(recovery, "open_agent", made.open_agent)
    monkeypatch.setattr(recover, "plan", made.plan)
    monkeypatch.setattr(recover, "run", made.run)
    return made


def asked(*words: str) -> int:
    return exit_status("--profile", "p", "server", "recover", *words)


@pytest.mark.parametrize(
    ("word", "words", "status", "ran"),
    [
        ("", ("--dry-run",), 0, 0),
        ("", (), 5, 0),
        ("", ("--yes",), 1, 1),
        ("restart 129", ("--last-resort", "restart", "--yes"), 5, 0),
        ("restart 129", ("--last-resort", "restart", "--word", "restart 12"), 5, 0),
        ("restart 129", ("--last-resort", "restart", "--word", "restart 129"), 1, 1),
    ],
)
def test_it_is_confirmed(made: Recovery, word: str, words: tuple[str, ...], status: int, ran: int) -> None:
    made.word = word
    assert asked(*words) == status
    assert made.ran == ran


def test_what_was_wished_for_reaches_the_plan(made: Recovery) -> None:
    assert asked("--including", "7", "--including-host", "8", "--last-resort", "pythons", "--dry-run") == 0
    assert made.wish == Wish((7,), (8,), "pythons")
    assert asked("--dry-run") == 0
    assert made.wish == Wish()


def test_all_of_it_is_in_the_document(made: Recovery, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("--json", "--yes") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["plan"]["title"] == "Free port 8000"
    assert [step["title"] for step in document["steps"]] == ["End it"]
    assert document["outcome"]["summary"] == "Not recovered."


def test_without_a_link_the_host_is_the_way(made: Recovery, capsys: pytest.CaptureFixture[str]) -> None:
    made.link = LinkError("refused")
    assert asked("--dry-run") == 0
    assert made.agents == [None]
    assert "going through the Proxmox host pve1" in capsys.readouterr().out


def test_a_changed_host_key_is_no_reason_for_another_way(made: Recovery) -> None:
    made.link = HostKeyChanged("another key")
    assert asked("--dry-run") == HostKeyChanged.exit_code
    assert not made.agents
