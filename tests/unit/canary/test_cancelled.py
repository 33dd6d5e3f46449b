"""A canary that is cancelled sends nothing more, leaves no dump, and judges nobody; one whose server dies says so."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from remote.canary import ask as asking
from remote.canary import canary
from remote.canary.ask import Asked
from remote.dumps import generate, request
from remote.server import judgement
from remote.wire.errors import ServerError
from remote.wire.plan import StepResult, Verdict
from tests.dumpfolder import dump
from tests.unit.dumps.test_request import Body, Reply, good, server, target


@pytest.mark.parametrize("answered", range(4))
def test_cancelled_after(answered: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sent: list[Body] = []
    folder, cancelled = tmp_path / "dumps", threading.Event()
    folder.mkdir()
    monkeypatch.setattr(judgement, "keep", lambda *seen: None if seen[3:] else pytest.fail("nobody is judged"))

    def handle(body: Body) -> Reply:
        sent.append(body)
        dump(folder, len(sent), ids=body["input_ids"], rid=body["rid"])
        if len(sent) == answered:
            cancelled.set()
        return good(body)

    if not answered:
        cancelled.set()
    steps: list[StepResult] = []
    with server(handle) as port:
        found = canary.run(target(port, folder, tp=2), steps.append, cancelled)
    assert len(sent) == answered
    assert (found.stopped, found.verdict) == (True, Verdict.UNKNOWN)
    assert found.checks[-1].name == steps[-1].title == "cancelled"
    assert f"after {answered} of 4 requests" in found.checks[-1].found
    assert not list(folder.iterdir()), "no dump, and no request named to the other ranks"


def test_a_server_that_dies_midway_is_told_beside_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "dumps"
    folder.mkdir()
    real, asked = asking.ask, []

    def ask(*args: Any, **more: Any) -> Asked:
        asked.append(args)
        if len(asked) > 1:
            raise ServerError("no server at http://127.0.0.1:1/generate: Connection refused")
        return real(*args, **more)

    def handle(body: Body) -> Reply:
        dump(folder, 7, ids=body["input_ids"], rid=body["rid"])
        return good(body)

    monkeypatch.setattr(canary, "ask", ask)
    with server(handle) as port:
        found = canary.run(target(port, folder, tp=2), lambda _: None)
    assert (found.verdict, found.stopped, found.dumps) == (Verdict.BAD, False, (7,))
    gone = [check.found for check in found.checks if "the server went away" in check.found]
    assert len(gone) == 3
    assert not (folder / ".canary").exists()


HANGS = {"no answer": (None, 30.0), "no dump": (good, 0.0)}


@pytest.mark.parametrize("what", HANGS)
def test_what_does_not_come_is_not_waited_for_any_longer(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first request may take minutes: cancelled, it is cut off, and that is no verdict on the server."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(judgement, "keep", lambda *seen: None if seen[3:] else pytest.fail("nobody is judged"))
    for module in (generate, request):
        monkeypatch.setattr(module, "CANCELLED_S", 0.2)
    answer, seconds = HANGS[what]
    cancelled, over = threading.Event(), threading.Event()

    def handle(body: Body) -> Reply | None:
        cancelled.set()
        over.wait(seconds)
        return answer(body) if answer else None

    began = time.monotonic()
    with server(handle) as port:
        found = canary.run(target(port, tmp_path), lambda _: None, cancelled)
        took = time.monotonic() - began
        over.set()
    assert took < min(generate.ANSWER_S, request.DUMP_S)
    assert (found.stopped, found.verdict, found.dumps) == (True, Verdict.UNKNOWN, ())
    assert [check.name for check in found.checks] == ["cancelled"]
    assert "after 0 of 4 requests; the one under way was cut off" in found.checks[0].found


def test_a_server_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with server(good) as port:
        pass
    with pytest.raises(ServerError):
        canary.run(target(port, tmp_path), lambda _: None)
