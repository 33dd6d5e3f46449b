"""The threads that write requests, so that the forward never does."""

from __future__ import annotations

import collections
import os
import queue
import threading
import time
from typing import Callable

from . import log
from .problem import problem_of

_MOST_THREADS = 12
_AT_EXIT_S = 10.0

Work = Callable[[], None]


class Line:
    """Work that has to be done in its order, one piece at a time: the parts of a request."""

    def __init__(self) -> None:
        self.waiting: collections.deque[Work] = collections.deque()
        self.taken = False  # by a thread, or queued for one


class Writers:
    """Threads start with the first work, in the process that runs the model. threads: 0 for what the machine bears."""

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or min(_MOST_THREADS, max(2, (os.cpu_count() or 2) * 3 // 4))
        self._queue: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._missing = self._threads  # of which none runs yet
        self._pending = 0

    def put(self, line: Line, work: Work) -> None:
        """Have `work` done after what was put into `line` before. What it raises is logged."""
        with self._lock:
            self._pending += 1
            line.waiting.append(work)
            queued, line.taken = line.taken, True
            missing, self._missing = self._missing, 0
        if not queued:
            self._queue.put(line)
        self._start(missing)

    def _start(self, missing: int) -> None:
        """So many threads; where the system has no more, those that run do the work, and the next work tries again."""
        try:
            while missing:
                threading.Thread(target=self._run, name=f"hs-dump-{missing}", daemon=True).start()
                missing -= 1
        except RuntimeError as error:
            log.once(f"{missing} of {self._threads} writers could not be started", str(error))
            with self._lock:
                self._missing = missing

    def drain(self, timeout: float = _AT_EXIT_S) -> bool:
        """Wait until everything is done. Whether it is."""
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
            line = self._queue.get()
            try:
                line.waiting[0]()
            except BaseException as error:  # nothing may end a writer: its line would wait for ever
                problem = problem_of(error)
                log.once(f"a writer failed: {problem.cause}", problem.detail)
            with self._lock:
                line.waiting.popleft()
                self._pending -= 1
                line.taken = more = bool(line.waiting)
                self._idle.notify_all()
            if more:
                self._queue.put(line)
