"""Many dumps verified at once, by a process a core, each result told as it comes."""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Callable, Optional

from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult, VerifySummary
from remote.wire.errors import DumpError
from remote.wire.plan import Check, Verdict

from . import rows
from .attempts import Attempt, Standing, standings
from .calibration import norms_for
from .norms import Norms
from .worker import Worker

INTERVAL_S = 0.1  # between two events
SILENCE_S = 5.0  # without a result, an event says that the work goes on
_MOST_WORKERS = 8
_BATCH = 16  # dumps handed to a worker at once
_NOT_WRONG = (Verified.OK, Verified.WARN, Verified.UNVERIFIED)
_WELL = (Verified.OK, Verified.WRITING, Verified.GONE)

Emit = Callable[[VerifyProgress], None]


def names_of(dump_dir: str, numbers: Optional[Sequence[int]]) -> list[str]:
    """The directories of `numbers`, or of all dumps, in order. Raises DumpError when the folder can't be listed."""
    try:
        found = {name: rows.number_of(name) for name in os.listdir(dump_dir)}
    except FileNotFoundError:
        remedy = "SGLang makes it when it starts patched: hsconsole server start. Else compare it with dump.folder."
        raise DumpError(f"there is no {dump_dir} yet, so no dump", remedy) from None
    except OSError as error:
        raise DumpError(f"{dump_dir} can't be listed: {error.strerror}", "Compare it with dump.folder.") from None
    there = {number: name for name, number in sorted(found.items()) if number is not None}  # req_N after .req_N.pid
    wanted = sorted(there) if numbers is None else sorted(set(numbers))
    return [there.get(number, f"req_{number}") for number in wanted]


def verify(
    dump_dir: str,
    model_path: str,
    names: Sequence[str],
    level: Level,
    emit: Emit,
    cancelled: threading.Event,
) -> VerifySummary:
    """Structure or content of the dumps `names`. Memory: under 24 MiB a worker beside Python and numpy.

    Dumps that are taken away meanwhile are GONE. Raises DumpError when no worker can be started.
    """
    started = time.monotonic()
    known = None if level is Level.STRUCTURE else norms_for(model_path, dump_dir, names)
    run = _Run(dump_dir, level, known, names)
    run.go(emit, cancelled)
    return summary(level, run.results, time.monotonic() - started, known, run.stopped)


def summary(level: Level, results: Tally, seconds: float, known: Optional[Norms], stopped: bool) -> VerifySummary:
    norms = "" if level is Level.STRUCTURE else "nothing learned" if known is None else _told(known)
    ok = not stopped and all(Verified(name) in _WELL for name in results.counts)
    found = results.standings()
    superseded = tuple(number for number, standing in found.items() if standing.superseded_by is not None)
    longer = tuple(number for number, standing in found.items() if standing.longer_than is not None)
    counts = dict(results.counts)
    return VerifySummary(level, ok, counts, results.bytes, seconds, norms, stopped, "", superseded, longer)


def _told(known: Norms) -> str:
    return f"{known.dumps} dumps, {known.source}"


class Tally:
    """counts: by verdict."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.bytes = 0
        self._attempts: dict[str, list[Attempt]] = collections.defaultdict(list)  # by rid

    def add(self, result: VerifyResult) -> None:
        self.counts[result.verdict.value] += 1
        self.bytes += result.bytes
        if result.rid is not None:
            one = Attempt(result.number, result.tokens, result.verdict in _NOT_WRONG)
            self._attempts[result.rid].append(one)

    def standings(self) -> dict[int, Standing]:
        """Of every dump whose rid is known, to the others of its rid."""
        several = [sorted(each, key=lambda one: one.number) for each in self._attempts.values()]
        found = {one.number: stands for each in several for one, stands in zip(each, standings(each))}
        return dict(sorted(found.items()))


class _Run:
    def __init__(self, dump_dir: str, level: Level, known: Optional[Norms], names: Sequence[str]) -> None:
        self.results = Tally()
        self.stopped = False
        self._start: Callable[[], Worker] = lambda: Worker(dump_dir, level, known)
        self._level = level
        self._total = len(names)
        self._batches = _batches(names)
        self._lock = threading.Lock()
        self._new: list[VerifyResult] = []
        self._done = 0
        self._told = time.monotonic()
        self._workers: list[Worker] = []

    def go(self, emit: Emit, cancelled: threading.Event) -> None:
        count = max(1, min(len(os.sched_getaffinity(0)), _MOST_WORKERS, -(-self._total // _BATCH)))
        try:
            self._workers = [self._start() for _ in range(count)]
        except OSError as error:
            self._end()
            raise DumpError(f"no process to verify with could be started: {error.strerror}", "Try again.") from None
        threads = [threading.Thread(target=self._drive, args=(at,), daemon=True) for at in range(count)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if cancelled.wait(INTERVAL_S):
                self.stopped = True
                self._end()
                break
            self._tell(emit)
        for thread in threads:
            thread.join()
        self._end()  # also one that began to take a dead one's place meanwhile
        if not self.stopped:
            for batch in self._batches:
                self._lost(batch)
        self._tell(emit)

    def _drive(self, at: int) -> None:
        """Keep one worker busy; a new one takes its place when it dies."""
        while not self.stopped:
            with self._lock:
                batch = next(self._batches, None)
            if batch is None:
                return
            left = collections.deque(batch)
            for result in self._workers[at].verify(batch):
                left.popleft()
                self._take(result)
            if not left or self.stopped:
                continue
            self._lost(left)
            self._workers[at].end()
            try:
                self._workers[at] = self._start()
            except OSError:
                return  # the others go on; what nobody takes is not verified

    def _lost(self, names: Iterable[str]) -> None:
        """What a worker held when it died, over the first of them, is not verified; nor is what nobody took."""
        died = Check("verification", Verdict.UNKNOWN, "the process that was to verify it died", "Verify it alone.")
        for name in names:
            self._take(VerifyResult(rows.number_of(name) or 0, Verified.UNVERIFIED, self._level, (died,)))

    def _take(self, result: VerifyResult) -> None:
        with self._lock:
            self._new.append(result)
            self._done += 1
            self.results.add(result)

    def _tell(self, emit: Emit) -> None:
        with self._lock:
            new, self._new = tuple(self._new), []
        now = time.monotonic()
        if new or now - self._told > SILENCE_S:
            self._told = now
            emit(VerifyProgress(new, self._done, self._total))

    def _end(self) -> None:
        for worker in self._workers:
            worker.end()


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + _BATCH] for at in range(0, len(names), _BATCH))
