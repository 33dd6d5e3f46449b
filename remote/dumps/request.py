"""The test request: ten ids through the running server, its dump awaited, every check of that dump."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Optional

from remote.wire.dumps import DumpRow, DumpState, DumpTest
from remote.wire.plan import Check, OnStep, StepResult, Verdict
from remote.wire.target import Target

from . import checks, why
from .dump import Dump
from .generate import CANCELLED_S, Answer, Generate
from .search import Search
from .verdict import MERGED, MISSING_ROWS, Expected, judge, unknown

IDS = tuple(range(1, 11))
DUMP_S = 30.0  # from the answer to the dump
GUESS_S = 2.0  # after that, a dump that does not say whose it is will do
_INTERVAL_S = 0.05


def test(target: Target, emit: OnStep) -> DumpTest:
    """Send it and check its dump; each step and check is emitted as it ends.

    Raises ServerError when nothing listens at the target's port. Everything else that fails is a check.
    """
    return _Test(target, emit).run()


class _Test:
    def __init__(self, target: Target, emit: OnStep) -> None:
        self._target = target
        self._emit = emit
        self._started = self._lap = time.monotonic()
        self._checks: list[Check] = []
        self._rid = f"hsconsole-test-{uuid.uuid4().hex}"

    def run(self) -> DumpTest:
        search = Search(self._target.dump_dir)
        server = Generate(self._target)
        expected = Expected(IDS, self._target.layers, self._rid, time.time())
        server.send(IDS, self._rid)
        self._step("request sent", f"{len(IDS)} ids to {server.url}, rid {self._rid}")
        answer = server.answer()
        if answer.problem:
            self._add(
                Check("answer", Verdict.BAD, f"the server {answer.problem}", "Look at the server's state and log.")
            )
            return self._result(None)
        self._add(Check("answer", Verdict.OK, f"answered in {answer.seconds * 1000:.0f} ms"))
        self._add(prompt_check(answer, len(IDS)))
        return self._result(self._examine(search, expected))

    def _examine(self, search: Search, expected: Expected) -> Optional[int]:
        """Wait for the dump and check it; its number."""
        answered = time.monotonic()
        row = wait_for_dump(search, expected)
        if row is None:
            self._add(missing_check(self._target, search))
            return None
        name = f"req_{row.number}"
        if row.state is DumpState.ERROR:
            self._add(
                Check("dump", Verdict.BAD, f"{name} could not be dumped: {row.note}", "Remove the cause it names.")
            )
            return row.number
        self._add(Check("dump", Verdict.OK, f"{name} finished {time.monotonic() - answered:.1f} s after the answer"))
        try:
            dump = Dump(os.path.join(self._target.dump_dir, name), row.number)
        except OSError as error:
            self._add(
                unknown("dump", f"{name} can't be read any more: {error.strerror}", "Does a consumer take dumps?")
            )
            return row.number
        for check in checks.run(dump, expected):
            self._add(check)
        return row.number

    def _add(self, check: Check) -> None:
        self._checks.append(check)
        self._step(check.name, check.found, check.verdict is Verdict.OK)

    def _step(self, title: str, detail: str, ok: bool = True) -> None:
        now = time.monotonic()
        self._emit(StepResult(title, ok, detail, now - self._lap))
        self._lap = now

    def _result(self, number: Optional[int]) -> DumpTest:
        ok = all(check.verdict is Verdict.OK for check in self._checks)
        return DumpTest(ok, self._rid, time.monotonic() - self._started, number, tuple(self._checks))


def wait_for_dump(search: Search, expected: Expected, cancelled: Optional[threading.Event] = None) -> Optional[DumpRow]:
    """The dump of a request that was answered, complete or not; None when it does not come."""
    started = time.monotonic()
    guess_at = GUESS_S
    while True:
        row = search.look(expected)
        waited = time.monotonic() - started
        if row is None and waited >= guess_at:
            guess_at *= 2
            row = search.guess(expected)
        patience = CANCELLED_S if cancelled is not None and cancelled.is_set() else DUMP_S
        if row is not None or waited >= patience:
            return row
        time.sleep(_INTERVAL_S)


def prompt_check(answer: Answer, count: int) -> Check:
    """Whether all `count` ids, and only they, went through the model."""
    problems, remedy = [], MISSING_ROWS
    tokens, cached = answer.info.get("prompt_tokens"), answer.info.get("cached_tokens")
    if tokens not in (None, count):
        problems.append(f"the server counts {tokens} prompt tokens, {count} were sent")
        remedy = MERGED
    if cached:
        problems.append(f"{cached} of them came from its cache and are not computed again")
    return judge("prompt", problems, f"{count} prompt tokens, none from a cache", remedy)


def missing_check(target: Target, search: Search) -> Check:
    """The check of a dump that did not come."""
    found = f"the server answered, but no dump of this request came within {DUMP_S:.0f} s"
    if search.others:
        found += f"; {search.others} dumps of other requests did"
    return Check("dump", Verdict.BAD, found, why.no_dump(target.dump_dir))
