"""What is typed wrong is answered with what was meant, and before a link is made."""

from __future__ import annotations

import pytest
from click import shell_completion

from console.cli import main, server
from remote.wire.dumps import Level, VerifySummary
from remote.wire.server import LoadProgress, Phase, ServerState

TYPED = {
    ("dump", "list"): "Did you mean 'dumps'?",
    ("statsu",): "Did you mean 'status'?",
    ("dumps", "lst"): "Did you mean 'list'?",
    ("server", "stpo"): "Did you mean 'stop'?",
    ("zzz",): "No such command 'zzz'",
    ("server", "logs", "-n", "-5"): "-5 is not in the range",
    ("dumps", "list", "--last", "0"): "0 is not in the range",
    ("dumps", "verify"): "say --all",
}


@pytest.mark.parametrize("typed", TYPED, ids=" ".join)
def test_what_is_typed_wrong(typed: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(list(typed)) == 2
    assert TYPED[typed] in capsys.readouterr().err


COMPLETED = {"statu": "plain,status", "dump ": "plain,status", "dumps lst ": "plain,verify"}


@pytest.mark.parametrize("typed", COMPLETED)
def test_a_shell_completes_whatever_was_typed(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_WORDS", f"hsconsole {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" "))))
    assert shell_completion.shell_complete(main.root, {}, "hsconsole", "_HSCONSOLE_COMPLETE", "bash_complete") == 0
    assert COMPLETED[typed] in capsys.readouterr().out


def test_a_stage_of_the_load_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    stage = "starting its processes"
    server._print(ServerState(Phase.LOADING, stage, 0.0, 8000, load=LoadProgress(stage)))
    server._print(ServerState(Phase.READY, "answers 200", 0.0, 8000))
    assert capsys.readouterr().out == f"loading, port 8000: {stage}\nready, port 8000: answers 200\n"


@pytest.mark.parametrize(
    ("counts", "faulty"),
    [({"ok": 3, "unverified": 1}, False), ({"bad": 1}, True), ({"warn": 1, "ok": 2}, True), ({"error": 1}, True)],
)
def test_what_could_not_be_looked_at_is_no_fault(counts: dict[str, int], faulty: bool) -> None:
    assert VerifySummary(Level.CONTENT, ok=False, counts=counts, bytes=0, seconds=0.0).faulty is faulty
