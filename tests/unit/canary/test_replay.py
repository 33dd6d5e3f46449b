"""The level of meaning on a server that dumps nothing, or not always: nobody waits for each dump that won't come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from remote.canary import replay
from remote.dumps import generate, request, verify
from remote.dumps.verify import Emit
from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult, VerifySummary
from tests.dumpfolder import dump
from tests.unit.dumps.test_request import Body, Reply, good, server, target

STORED = 5
NEW = 100


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of dumps that are all well in content."""
    pytest.importorskip("numpy")
    for number in range(STORED):
        dump(tmp_path, number, ids=tuple(range(number + 2, number + 12)))

    def well(folder: str, model: str, names: Sequence[str], level: Level, emit: Emit, _: object) -> VerifySummary:
        results = tuple(VerifyResult(int(name[4:]), Verified.OK, Level.CONTENT) for name in sorted(names))
        emit(VerifyProgress(results, len(results), len(results)))
        return VerifySummary(level, True, {}, 0, 0.0)

    monkeypatch.setattr(verify, "verify", well)
    monkeypatch.setattr(request, "DUMP_S", 0.2)
    return tmp_path


def verified(port: int, folder: Path, cancelled: threading.Event | None = None) -> dict[int, VerifyResult]:
    found: dict[int, VerifyResult] = {}
    told = replay.run(
        target(port, folder),
        None,
        Level.MEANING,
        lambda progress: found.update({result.number: result for result in progress.results}),
        cancelled or threading.Event(),
    )
    assert not told.ok
    return found


# which of the requests are dumped, in the order in which they are sent, and how many are sent in the end
DUMPED = {
    "none": ((False,), 1),
    "one is lost among others": ((True, False, True, True, True), 5),
    "no more after the first": ((True, False, False), 3),
}


@pytest.mark.parametrize("which", DUMPED)
def test_what_does_not_come_is_not_waited_for_again_and_again(which: str, stored: Path) -> None:
    dumped, sent = DUMPED[which]
    came: list[Body] = []

    def handle(body: Body) -> Reply:
        if dumped[len(came)]:
            dump(stored, NEW + len(came), ids=body["input_ids"], rid=body["rid"])
        came.append(body)
        return good(body)

    with server(handle) as port:
        found = verified(port, stored)
    assert len(came) == sent
    assert sorted(found) == list(range(STORED))
    assert {result.level for result in found.values()} == {Level.MEANING}
    assert {result.verdict for result in found.values()} == {Verified.UNVERIFIED}, "logprobs can't be compared here"
    reasons = [
        next(check for check in found[number].checks if check.name in ("replay", "final against logprobs"))
        for number in found
    ]
    unsent = [check for check in reasons if check.found.startswith("not sent again, for req_")]
    assert len(unsent) == STORED - sent
    assert all("no dump of this request came" in check.found and check.remedy for check in unsent)


def test_one_that_hangs_is_cancelled_without_a_verdict(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "CANCELLED_S", 0.2)
    cancelled, over = threading.Event(), threading.Event()

    def handle(_: Body) -> Reply | None:
        cancelled.set()
        over.wait(30)
        return None

    began = time.monotonic()
    with server(handle) as port:
        found = verified(port, stored, cancelled)
        took = time.monotonic() - began
        over.set()
    assert found == {}
    assert took < 30
