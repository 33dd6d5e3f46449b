"""A canary that is cancelled sends nothing more, leaves no dump, and judges nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from remote.canary import canary
from remote.server import judgement
from remote.wire.plan import StepResult, Verdict
from tests.dumpfolder import dump
from tests.unit.dumps.test_request import Body, Reply, good, server, target


@pytest.mark.parametrize("answered", range(4))
def test_cancelled_after(answered: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sent: list[Body] = []
    folder, cancelled = tmp_path / "dumps", threading.Event()
    folder.mkdir()
    monkeypatch.setattr(judgement, "keep", lambda *_: pytest.fail("nobody is judged"))

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
