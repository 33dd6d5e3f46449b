"""The level of meaning: a stored dump's prompt goes through the running server again, and both must agree."""

from __future__ import annotations

import dataclasses
import struct
import threading
import time
from collections.abc import Sequence
from typing import Optional

from remote.dumps import content, verify
from remote.dumps.archive import TensorProblem
from remote.dumps.dump import Dump
from remote.dumps.examine import verdict_of
from remote.dumps.meta import IDS
from remote.dumps.verify import Emit, Tally
from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult, VerifySummary
from remote.wire.errors import ServerError
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

from . import compare, logits, states, tolerance
from .ask import ask, new_rid, path_of, remove

MOST_LOGPROBS = 1024  # tokens: for longer prompts the server would need gigabytes for logits that nobody else asks for
NAME = "replay"


def run(
    target: Target, numbers: Optional[Sequence[int]], level: Level, emit: Emit, cancelled: threading.Event
) -> VerifySummary:
    """Verify dumps up to `level`. For meaning, what is well in content is sent again, one prompt after the other.

    Where no server listens, or the server dumps nothing, meaning stays unverified. Raises DumpError when the folder
    can't be listed.
    """
    names = verify.names_of(target.dump_dir, numbers)
    if level is not Level.MEANING:
        return verify.verify(target.dump_dir, target.model_path, names, level, emit, cancelled)
    return _Meaning(target, emit, cancelled, len(names)).run(names)


class NoDump(Exception):
    """What was sent again gave no dump. check: why."""

    def __init__(self, check: Check) -> None:
        super().__init__(f"{check.name}: {check.found}")
        self.check = check


class _Meaning:
    def __init__(self, target: Target, emit: Emit, cancelled: threading.Event, total: int) -> None:
        self._target = target
        self._emit = emit
        self._cancelled = cancelled
        self._total = total
        self._tally = Tally()
        self._done = 0
        self._next: list[VerifyResult] = []
        self._dumps = False  # the server has dumped what was sent again
        self._missing = 0  # dumps in a row that did not come
        self._in_vain: Optional[Check] = None  # why nothing more is sent

    def run(self, names: Sequence[str]) -> VerifySummary:
        started = time.monotonic()
        shallow = verify.verify(
            self._target.dump_dir, self._target.model_path, names, Level.CONTENT, self._sort_out, self._cancelled
        )
        for result in self._next:
            found = None if self._cancelled.is_set() else self._replay(result)
            if found is None:
                break
            self._tell(found)
        seconds, stopped = time.monotonic() - started, self._done < self._total
        return dataclasses.replace(
            verify.summary(Level.MEANING, self._tally, seconds, None, stopped), norms=shallow.norms
        )

    def _replay(self, shallow: VerifyResult) -> Optional[VerifyResult]:
        """None when it was cancelled. A dump that does not come is waited for once: twice where others came."""
        if self._in_vain:
            return _result(shallow, [self._in_vain])
        try:
            result = replay(self._target, shallow, self._cancelled)
        except NoDump as missing:
            if self._cancelled.is_set():
                return None
            remedy = missing.check.remedy
            self._missing += 1
            if self._missing > self._dumps:
                why = f"not sent again, for req_{shallow.number} was and gave no dump: {missing}"
                self._in_vain = Check(NAME, Verdict.UNKNOWN, why, remedy)
            found = f"the same prompt gave no dump now: {missing}"
            return _result(shallow, [Check(NAME, Verdict.UNKNOWN, found, remedy)])
        not_compared = any(check.name == NAME and check.verdict is Verdict.UNKNOWN for check in result.checks)
        if result.verdict is not Verified.GONE and not not_compared:
            self._dumps, self._missing = True, 0
        return result

    def _sort_out(self, progress: VerifyProgress) -> None:
        """What is well goes on to the replay; the rest is told."""
        well = (Verified.OK, Verified.WARN)
        told = tuple(result for result in progress.results if result.verdict not in well)
        self._next += [result for result in progress.results if result.verdict in well]
        self._tell(*told)

    def _tell(self, *results: VerifyResult) -> None:
        for result in results:
            self._tally.add(result)
        self._done += len(results)
        self._emit(VerifyProgress(results, self._done, self._total))


def replay(target: Target, shallow: VerifyResult, cancelled: Optional[threading.Event] = None) -> VerifyResult:
    """The result at the level of meaning of a dump with the result `shallow`. Leaves no dump of its own.

    Raises NoDump.
    """
    try:
        dump = Dump(path_of(target, shallow.number), shallow.number)
        made = checks(target, dump, cancelled)
    except FileNotFoundError:
        return VerifyResult(shallow.number, Verified.GONE, Level.MEANING)
    except (OSError, TensorProblem, ServerError) as error:
        made = [Check(NAME, Verdict.UNKNOWN, str(error))]
    return _result(shallow, made)


def _result(shallow: VerifyResult, made: list[Check]) -> VerifyResult:
    every = [*made, *shallow.checks]
    told = tuple(check for check in every if check.verdict is not Verdict.OK)
    return dataclasses.replace(shallow, verdict=verdict_of(every), level=Level.MEANING, checks=told)


def checks(target: Target, dump: Dump, cancelled: Optional[threading.Event] = None) -> list[Check]:
    """What its prompt, run again, says of the dump.

    Raises NoDump, FileNotFoundError, OSError, TensorProblem, ServerError.
    """
    numpy = content.numpy()
    stored = states.read(numpy, dump)
    ids = _ids(dump)
    if ids is None:
        return [Check(NAME, Verdict.UNKNOWN, "the dump does not say which ids it is of")]
    asked = ask(target, numpy, ids, new_rid("replay"), logprobs=len(ids) <= MOST_LOGPROBS, cancelled=cancelled)
    try:
        if asked.number is None:
            raise NoDump(asked.checks[-1])
        if asked.states is None:
            odd = next((check for check in asked.checks if check.verdict is not Verdict.OK), None)
            why = f"{odd.name}: {odd.found}" if odd else "its dump can't be read"
            return [Check(NAME, Verdict.UNKNOWN, f"the same prompt gave no dump that can be read: {why}")]
        made = [compare.same(numpy, NAME, stored, asked.states, asked.states.rows, "the same rows as now")]
        if len(ids) <= MOST_LOGPROBS:
            spare = tolerance.of_rows(stored.dtype).beyond(stored.rows)
            made.append(logits.of_model(numpy, target, stored, logits.tops(asked.info, len(ids)), spare))
        return made
    finally:
        remove(target, asked)


def _ids(dump: Dump) -> Optional[tuple[int, ...]]:
    tensor = dump.tensors.get(IDS)
    if tensor is None or tensor.dtype != "int64" or tensor.wanted != tensor.payload or not tensor.rows:
        return None
    return struct.unpack(f"<{tensor.rows}q", tensor.rows_at(0, tensor.rows))
