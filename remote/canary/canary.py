"""The canary from first request to verdict."""

from __future__ import annotations

import random
import threading
import time
from typing import Optional

from remote.dumps import content, counter, rows
from remote.dumps.measured import ids_sha256
from remote.server import judgement, model
from remote.server.command import ranks_of_a_request
from remote.wire.dumps import Canary, DumpState
from remote.wire.errors import ServerError
from remote.wire.plan import Check, OnStep, StepResult, Verdict
from remote.wire.target import Target

from . import compare, convention, logits, order, prefills, ranks, tolerance
from .ask import Asked, ask, new_rid, remove
from .prefills import Dumped, Prefilled, PrefillLog
from .ranks import Ranks

LENGTH, OTHER_LENGTH, PREFIX = 96, 64, 41  # tokens; none a multiple of a kernel's tile but the first
_FEW_TOKENS = 64  # a vocabulary that need not be asked for
_MOST_OTHERS = 1000  # dumps of others that are looked at, the newest
_WORST = (Verdict.BAD, Verdict.UNKNOWN, Verdict.WARN)
_REQUESTS = 4


def run(target: Target, emit: OnStep, cancelled: Optional[threading.Event] = None) -> Canary:
    """Four requests of at most 96 tokens. Each check is emitted as it is made. The verdict is kept for the server.

    Its dumps are removed when all is well, and left to be looked at when not. Cancelled, it sends no further request
    and removes what it did not find wrong. Raises ServerError when nothing listens at the target's port as it
    begins. Everything else that fails is a check.
    """
    server = judgement.serving(target.port)
    found = _Run(target, emit, cancelled or threading.Event()).run()
    if not found.stopped:
        judgement.keep(target.port, server, found.verdict)
    return found


class _Cancelled(Exception):
    def __init__(self, cut: str = "") -> None:
        """cut: rid of a request that was not waited for."""
        super().__init__(cut)
        self.cut = cut


class _Run:
    def __init__(self, target: Target, emit: OnStep, cancelled: threading.Event) -> None:
        self._target = target
        self._emit = emit
        self._cancelled = cancelled
        self._stopped = False
        self._numpy = content.numpy()
        self._started = self._lap = time.monotonic()
        self._checks: list[Check] = []
        self._asked: list[Asked] = []

    def run(self) -> Canary:
        prompt, other = self._prompts()
        following = counter.following(self._target.dump_dir)
        prefilled = PrefillLog(self._target)
        rid = new_rid("again")
        copies = Ranks(self._target, rid, ids_sha256(prompt))
        try:
            first = self._ask("prompt", prompt)
            if first.number is not None:  # else no other would come either, after half a minute each
                between = self._ask("another prompt", other)
                again = self._ask_all_ranks("the same again", prompt, rid, copies)
                prefix = self._ask("its beginning", prompt[:PREFIX])
                self._compare(first, between, again, prefix)
                self._add(copies.check(self._numpy, again.states) if again.states else _not_made(ranks.NAME, again))
                self._add(self._log_check(prefilled, following))
            self._add(convention.check(first.version, self._target.eagle_layer_ids, self._target.layers))
        except _Cancelled as end:
            self._stopped = True
            answered = len(self._asked) - bool(end.cut)
            found = f"cancelled after {answered} of {_REQUESTS} requests"
            if end.cut:
                found += f"; the one under way was cut off, and its dump may still come (rid {end.cut})"
            self._add(Check("cancelled", Verdict.UNKNOWN, found, "Run it again: without its end it says nothing."))
        return self._result(copies)

    def _prompts(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ordinary tokens: not the first of a vocabulary nor the last, which have special meanings. No two alike at one
        position."""
        known = model.config(self._target.model_path)
        size = (known.vocabulary if known else None) or _FEW_TOKENS
        low, high = size // 50 + 2, size // 2
        dice = random.Random()  # noqa: S311 - not a secret
        prompt = tuple(dice.randrange(low, high) for _ in range(LENGTH))
        shifts = (dice.randrange(1, high - low) for _ in range(OTHER_LENGTH))
        return prompt, tuple(low + (one - low + shift) % (high - low) for one, shift in zip(prompt, shifts))

    def _ask_all_ranks(self, title: str, ids: tuple[int, ...], rid: str, copies: Ranks) -> Asked:
        copies.name()
        try:
            return self._ask(title, ids, rid)
        finally:
            copies.withdraw()

    def _ask(self, title: str, ids: tuple[int, ...], rid: str = "") -> Asked:
        """Raises _Cancelled instead, once that is wanted."""
        if self._cancelled.is_set():
            raise _Cancelled
        rid = rid or new_rid(title.split()[-1])
        try:
            asked = ask(self._target, self._numpy, ids, rid, cancelled=self._cancelled)
        except ServerError as error:
            if not self._asked:
                raise
            died = Check(
                "answer", Verdict.BAD, f"the server went away: {error.what}", "Look at the server's state and log."
            )
            asked = Asked(ids, rid, checks=[died])
        self._asked.append(asked)
        if asked.number is None and self._cancelled.is_set():
            raise _Cancelled(rid)  # which is no fault of the server's
        self._add(_dumped(title, asked))
        return asked

    def _compare(self, first: Asked, between: Asked, again: Asked, prefix: Asked) -> None:
        numpy = self._numpy
        self._add(self._logits(first))
        if first.states:
            self._add(order.check(numpy, first.states, self._target.model_path))
        name = "prefix"
        if first.states and prefix.states:
            fine = f"the first {PREFIX} rows are those of the shorter prompt"
            self._add(compare.same(numpy, name, prefix.states, first.states, PREFIX, fine))
        else:
            self._add(_not_made(name, first, prefix))
        name = "repeat"
        if first.states and again.states and between.states:
            same = compare.same(numpy, name, again.states, first.states, LENGTH, "the same prompt gives the same rows")
            alike = compare.unlike(numpy, first.states, between.states)
            self._add(Check(name, Verdict.BAD, alike, "A buffer is not written anew.") if alike else same)
        else:
            self._add(_not_made(name, first, between, again))

    def _logits(self, asked: Asked) -> Check:
        if asked.states is None:
            return _not_made(logits.NAME, asked)
        return logits.of_model(self._numpy, self._target, asked.states, logits.tops(asked.info, len(asked.ids)))

    def _log_check(self, prefilled: PrefillLog, first: int) -> Check:
        """first: the number that the next request had before the canary's own."""
        own = {asked.number for asked in self._asked if asked.number is not None}
        if len(own) < len(self._asked):
            return _not_made(prefills.NAME, *self._asked)
        tokens = sum(_rows_of(one) for one in self._asked)
        others: dict[int, int] = {}  # tokens of finished dumps, also of those that a consumer has taken since

        def look() -> Dumped:
            following = counter.following(self._target.dump_dir)
            for number in range(max(first, following - _MOST_OTHERS), following):
                if number in own or number in others:
                    continue
                row = rows.examine(self._target.dump_dir, f"req_{number}")
                if row is not None and row.state not in (DumpState.GONE, DumpState.WRITING):
                    others[number] = row.tokens or 0
            sent = Prefilled(len(own) + len(others), tokens + sum(others.values()))
            return Dumped(sent, len(others), max(following - first - sent.requests, 0))

        found = prefilled.check(look, self._cancelled)
        if found.verdict is not Verdict.OK and self._cancelled.is_set():
            raise _Cancelled  # it may not have been waited for to the end
        return found

    def _add(self, check: Optional[Check]) -> None:
        if check is None:
            return
        self._checks.append(check)
        now = time.monotonic()
        self._emit(StepResult(check.name, check.verdict is Verdict.OK, check.found, now - self._lap))
        self._lap = now

    def _result(self, copies: Ranks) -> Canary:
        needed = {
            check.verdict for check in self._checks if check.name != ranks.NAME or ranks_of_a_request(self._target) > 1
        }
        verdict = next((worst for worst in _WORST if worst in needed), Verdict.OK)
        if verdict is not Verdict.BAD:
            copies.remove()
        if verdict is Verdict.OK or (self._stopped and verdict is not Verdict.BAD):
            for asked in self._asked:
                remove(self._target, asked)
        numbers = tuple(asked.number for asked in self._asked if asked.number is not None)
        dtype = next((asked.states.dtype for asked in self._asked if asked.states), None)
        return Canary(
            verdict,
            time.monotonic() - self._started,
            numbers,
            tuple(self._checks),
            self._stopped,
            tolerance.told(dtype) if dtype else "",
        )


def _rows_of(asked: Asked) -> int:
    """Rows in the dump: what is compared with the log is what was written, not what was sent."""
    return asked.states.rows if asked.states else len(asked.ids)


def _dumped(title: str, asked: Asked) -> Check:
    """All checks of one dump as one; the first that is not well in full."""
    odd = next((check for check in asked.checks if check.verdict is not Verdict.OK), None)
    where = "no dump" if asked.number is None else f"req_{asked.number}"
    if odd is None:
        return Check(title, Verdict.OK, f"{where}: {len(asked.ids)} tokens, {len(asked.checks)} checks well")
    return Check(title, odd.verdict, f"{where}: {odd.name}: {odd.found}", odd.remedy)


def _not_made(name: str, *asked: Asked) -> Check:
    lacking = next((one for one in asked if one.states is None), None)
    why = "numpy is missing in the profile's Python" if content.numpy() is None else "a dump that it needs is missing"
    return Check(name, Verdict.UNKNOWN, why + (f": {lacking.rid}" if lacking else ""))
