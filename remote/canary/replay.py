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

    Where no server listens, meaning stays unverified. Raises DumpError when the folder can't be listed.
    """
    names = verify.names_of(target.dump_dir, numbers)
    if level is not Level.MEANING:
        return verify.verify(target.dump_dir, target.model_path, names, level, emit, cancelled)
    return _Meaning(target, emit, cancelled, len(names)).run(names)


class _Meaning:
    def __init__(self, target: Target, emit: Emit, cancelled: threading.Event, total: int) -> None:
        self._target = target
        self._emit = emit
        self._cancelled = cancelled
        self._total = total
        self._tally = Tally()
        self._done = 0
        self._next: list[VerifyResult] = []

    def run(self, names: Sequence[str]) -> VerifySummary:
        started = time.monotonic()
        shallow = verify.verify(
            self._target.dump_dir, self._target.model_path, names, Level.CONTENT, self._sort_out, self._cancelled
        )
        for result in self._next:
            if self._cancelled.is_set():
                break
            self._tell(replay(self._target, result))
        seconds, stopped = time.monotonic() - started, self._done < self._total
        return dataclasses.replace(
            verify.summary(Level.MEANING, self._tally, seconds, None, stopped), norms=shallow.norms
        )

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


def replay(target: Target, shallow: VerifyResult) -> VerifyResult:
    """The result at the level of meaning of a dump with the result `shallow`. Leaves no dump of its own."""
    try:
        dump = Dump(path_of(target, shallow.number), shallow.number)
        made = checks(target, dump)
    except FileNotFoundError:
        return VerifyResult(shallow.number, Verified.GONE, Level.MEANING)
    except (OSError, TensorProblem, ServerError) as error:
        made = [Check(NAME, Verdict.UNKNOWN, str(error))]
    made += shallow.checks
    told = tuple(check for check in made if check.verdict is not Verdict.OK)
    return VerifyResult(shallow.number, verdict_of(made), Level.MEANING, told, shallow.bytes, shallow.rid)


def checks(target: Target, dump: Dump) -> list[Check]:
    """What its prompt, run again, says of the dump. Raises FileNotFoundError, OSError, TensorProblem, ServerError."""
    numpy = content.numpy()
    stored = states.read(numpy, dump)
    ids = _ids(dump)
    if ids is None:
        return [Check(NAME, Verdict.UNKNOWN, "the dump does not say which ids it is of")]
    asked = ask(target, numpy, ids, new_rid("replay"), logprobs=len(ids) <= MOST_LOGPROBS)
    try:
        if asked.states is None:
            odd = next((check for check in asked.checks if check.verdict is not Verdict.OK), None)
            why = f"{odd.name}: {odd.found}" if odd else "its dump can't be read"
            return [Check(NAME, Verdict.UNKNOWN, f"the same prompt gave no dump now: {why}")]
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
