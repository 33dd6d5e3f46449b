"""hsconsole audit show and verify, of both logs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from console import audit
from console.cli import audit as command
from console.config import write
from console.config.profile import Profile
from console.operations import calls
from remote.agent import calls as agent_calls
from remote.agent.calls import Action
from remote.wire import journal
from remote.wire.audit import Entry, now
from tests.unit.audit.test_record import OUTCOME, PLAN, PROFILE, STEP, Direct
from tests.unit.commandline import exit_status


@pytest.fixture(autouse=True)
def one_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run is on record."""
    for variable in ("HSCONSOLE_STATE_DIR", "HSCONSOLE_CONFIG_DIR", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    write.write(PROFILE)

    @contextlib.contextmanager
    def session(name: str | None) -> Iterator[tuple[Direct, Profile]]:
        yield Direct(), PROFILE

    def stop(target: object, basis: object, step: object) -> object:
        assert callable(step)
        step(STEP)
        return OUTCOME

    monkeypatch.setattr(command, "session", session)
    monkeypatch.setitem(agent_calls.ACTIONS, "server.stop", Action(lambda _: PLAN, stop))  # type: ignore[arg-type]
    calls.run(Direct(), PROFILE, PLAN, lambda _: None)


def hsconsole(*words: str) -> int:
    return exit_status("--profile", "kimi", "audit", *words)


@pytest.mark.parametrize("where", ["laptop", "container"])
def test_show(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hsconsole("show", "--where", where) == 0
    shown = capsys.readouterr().out
    for words in (f"server.stop  {audit.operator()}", "$ kill -TERM 7", "✓ Ask it to end", "Stopped. ("):
        assert shown.count(words) == 1, "also what was planned and done is told once"
    assert hsconsole("show", "--json", "--where", where) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["kind"] for entry in found["entries"]] == ["genesis", "begin", "end"]


def test_an_action_cut_off_midway_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    journal.append(str(audit.path_of("kimi")), Entry("begin", now(), id="f", action="server.start", who="bob@desk"))
    assert hsconsole("show", "--last", "1") == 0
    shown = capsys.readouterr().out
    assert "server.start  bob@desk" in shown
    assert "server.stop" not in shown
    assert "no end on record: cut off midway, or still under way" in shown


@pytest.mark.parametrize("where", ["laptop", "container"])
def test_verify(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hsconsole("verify", "--where", where) == 0
    assert "3 lines, each fits" in capsys.readouterr().out
    folder = {"laptop": "HSCONSOLE_STATE_DIR", "container": "XDG_STATE_HOME"}[where]
    (log,) = (tmp_path / folder).rglob("*.jsonl")
    log.write_bytes(log.read_bytes().replace(b'"kind":"begin"', b'"kind":"bogus"'))
    assert hsconsole("verify", "--where", where) == 1
    assert f"{log}:3: it does not follow the line before it" in capsys.readouterr().out
    assert hsconsole("verify", "--json", "--where", where) == 1
    assert json.loads(capsys.readouterr().out)["misfit"]["line"] == 3


def test_before_anything_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "nothing"))
    assert hsconsole("verify") == 0
    assert hsconsole("show") == 0


def test_hostile_text_is_made_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Others can write to the container's log: any text, and any type in any place."""
    evil = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e"
    for kind, data in (
        (
            "begin",
            {"title": evil, "commands": [evil, 7, None], "steps": [evil, {"command": [evil]}], "losses": {"a": 1}},
        ),
        ("end", {"steps": "text", "ok": evil, "result": [evil], "seconds": "long", "error": {"what": [evil]}}),
    ):
        entry = Entry(kind, evil, id=evil, action=evil, who=evil, profile=evil, data=data)
        journal.append(str(audit.path_of("kimi")), entry)
    assert hsconsole("show") == 0
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x07\r\x9b\u202e")


def test_a_doubt_is_not_told_as_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"title": name, "ok": name == "tokens", "detail": "…"} for name in ("ranks", "tokens", "end")]
    verdicts = {"ranks": "unknown", "tokens": "ok"}
    checks = [{"name": name, "verdict": verdict} for name, verdict in verdicts.items()]
    command._print_ended({"ok": True, "steps": steps, "result": {"checks": checks}, "seconds": 1.0})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[:3]] == [
        ["?", "ranks"],
        ["✓", "tokens"],
        ["✗", "end"],
    ]
