"""The server's log against dumps while others use the server too: what they sent is neither missed nor a fault."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.canary import canary, prefills
from remote.server import judgement, log
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target
from tests.dumpfolder import dump
from tests.unit.dumps.test_request import Body, Reply, good, server, target

OLD = 10
OTHER = tuple(range(20, 27))


class Dumper:
    """Claims numbers and dumps as the real one does, and logs each prefill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Path()
        self.asked = 0
        self.later: list[threading.Timer] = []
        self._following = 0
        for _ in range(OLD):
            self.dumped((1, 2, 3), "old")

    def dumped(self, ids: tuple[int, ...], rid: str) -> Path:
        path = dump(self.folder, self._following, ids=ids, rid=rid)
        self._following += 1
        (self.folder / ".counter").write_bytes(b"%020d\n" % self._following)
        return path

    def logged(self, tokens: int) -> None:
        with self.log.open("a") as file:
            file.write(
                f"[2026-11-30 02:12:11 TP0] Prefill batch, #new-seq: 1, #new-token: {tokens}, #cached-token: 0\n"
            )


def stays(dumper: Dumper) -> None:
    dumper.dumped(OTHER, "another's")
    dumper.logged(len(OTHER))


def taken(dumper: Dumper) -> None:
    shutil.rmtree(dumper.dumped(OTHER, "another's"))
    dumper.logged(len(OTHER))


def later(dumper: Dumper) -> None:
    """Logged when it begins, dumped when it has been computed."""
    dumper.logged(len(OTHER))
    dumper.later.append(threading.Timer(1.0, dumper.dumped, (OTHER, "another's")))
    dumper.later[-1].start()


def old_ones_taken(dumper: Dumper) -> None:
    for number in range(OLD // 2, OLD):
        shutil.rmtree(dumper.folder / f"req_{number}")


CASES: dict[str, tuple[Callable[[Dumper], object], Verdict, str]] = {
    "nobody": (lambda _: None, Verdict.OK, "log: 4 requests, 297 tokens; dumps: 4, 297"),
    "another's dump stays": (stays, Verdict.OK, "log: 5 requests, 304 tokens; dumps: 5, 304"),
    "another's is computed yet": (later, Verdict.OK, "log: 5 requests, 304 tokens; dumps: 5, 304"),
    "a consumer has another's dump": (taken, Verdict.UNKNOWN, "1 requests of others ran"),
    "a consumer takes old dumps": (old_ones_taken, Verdict.OK, "log: 4 requests, 297 tokens; dumps: 4, 297"),
    "rows of nobody": (lambda dumper: dumper.logged(7), Verdict.BAD, "log: 5 requests, 304 tokens; dumps: 4, 297"),
    "a health check": (lambda dumper: dumper.logged(1), Verdict.WARN, "1 of one token each"),
}


@contextlib.contextmanager
def dumping(folder: Path, meanwhile: Callable[[Dumper], object]) -> Iterator[Target]:
    """A server that dumps; meanwhile: what happens as it answers the second request."""
    dumper = Dumper(folder)

    def handle(body: Body) -> Reply:
        dumper.dumped(body["input_ids"], body["rid"])
        dumper.logged(len(body["input_ids"]))
        dumper.asked += 1
        if dumper.asked == 2:
            meanwhile(dumper)
        return good(body)

    with server(handle) as port:
        used = target(port, folder)
        dumper.log = Path(log.path_of(used))
        dumper.log.parent.mkdir(parents=True, exist_ok=True)
        dumper.log.touch()
        yield used
    for timer in dumper.later:
        timer.join()


@pytest.mark.parametrize("case", CASES)
def test_beside(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile, verdict, told = CASES[case]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(prefills, "_WAIT_S", 0.2)
    monkeypatch.setattr(prefills, "_BUSY_S", 0.4 if verdict is Verdict.BAD else 30.0)
    with dumping(tmp_path, meanwhile) as used:
        found = check_of(canary.run(used, lambda _: None).checks)
    assert (found.verdict, told in found.found) == (verdict, True), found


def test_cancelled_while_it_waits_for_what_others_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(judgement, "keep", lambda *seen: None if seen[3:] else pytest.fail("nobody is judged"))
    cancelled = threading.Event()
    with dumping(tmp_path, lambda dumper: dumper.logged(7)) as used:
        threading.Timer(1.0, cancelled.set).start()
        found = canary.run(used, lambda _: None, cancelled)
    assert found.stopped
    assert not any(check.name == prefills.NAME for check in found.checks)


def check_of(checks: tuple[Check, ...]) -> Check:
    return next(check for check in checks if check.name == prefills.NAME)
