"""The threads that write requests, so that the forward never does."""

from __future__ import annotations

import os
import queue
import threading
import time

from . import log
from .problem import problem_of
from .request import Recorder, Request
from .stats import Stats

_MOST_THREADS = 8
_AT_EXIT_S = 10.0


class Writers:
    """Threads start with the first request, in the process that runs the model."""

    def __init__(self, recorder: Recorder, stats: Stats) -> None:
        self._recorder = recorder
        self._stats = stats
        self._queue: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = False
        self._pending = 0
        self._idle = threading.Condition(self._lock)

    def put(self, request: Request) -> None:
        with self._lock:
            self._pending += 1
            if not self._started:
                self._started = True
                for number in range(_thread_count()):
                    threading.Thread(target=self._run, name=f"hs-dump-{number}", daemon=True).start()
        self._queue.put(request)

    def drain(self, timeout: float = _AT_EXIT_S) -> bool:
        """Wait until everything is written. Whether it is."""
        until = time.monotonic() + timeout
        with self._idle:
            while self._pending:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._idle.wait(left)
            return True

    def _run(self) -> None:
        while True:
            self._write(self._queue.get())

    def _write(self, request: Request) -> None:
        try:
            problem = self._recorder.write(request)
        except Exception as error:
            problem = problem_of(error)
            log.once(f"a request was lost, not even its error could be written: {problem.cause}", problem.detail)
        if problem is None:
            self._stats.dumped()
        else:
            self._stats.failed(problem.cause)
        request.release()
        with self._idle:
            self._pending -= 1
            self._idle.notify_all()


def _thread_count() -> int:
    return min(_MOST_THREADS, max(2, (os.cpu_count() or 2) // 2))
