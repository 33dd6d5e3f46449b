"""What this process dumped, could not dump and left alone: `<dump folder>/.stats/<pid>.json`, for the console."""

from __future__ import annotations

import collections
import os
import threading
import time
from typing import Any, Optional

from .files import replace_json
from .problem import Problem

_INTERVAL_S = 1.0


class Stats:
    """Counters, written when they changed, at most once a second."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, ".stats", f"{os.getpid()}.json")
        self._lock = threading.Lock()
        self._dumped = 0
        self._errors: collections.Counter[str] = collections.Counter()
        self._skipped: collections.Counter[str] = collections.Counter()
        self._refused = ""
        self._passes = 0
        self._requests = 0
        self._forward = 0.0
        self._waited = 0.0
        self._changed = threading.Event()
        self._started = False

    def ended(self, problem: Optional[Problem]) -> None:
        """A request was dumped, or got an error."""
        if problem is not None:
            self.failed(problem.cause)
            return
        with self._lock:
            self._dumped += 1
        self._touch()

    def failed(self, cause: str) -> None:
        """A request that could not be dumped."""
        with self._lock:
            self._errors[cause] += 1
        self._touch()

    def skipped(self, reason: str, count: int = 1) -> None:
        """Passes or requests that are not to be dumped."""
        with self._lock:
            self._skipped[reason] += count
        self._touch()

    def passed(self, seconds: float, requests: int) -> None:
        """A pass was handed over; the forward spent `seconds` on that."""
        with self._lock:
            self._passes += 1
            self._requests += requests
            self._forward += seconds
        self._touch()

    def waited(self, seconds: float) -> None:
        """The forward waited so long for memory, which the writers had not given back."""
        with self._lock:
            self._waited += seconds

    def refused(self, cause: str) -> None:
        """This server can not be dumped at all."""
        with self._lock:
            self._refused = cause
        self._touch()

    def snapshot(self) -> dict[str, Any]:
        with self._lock:
            return {
                "pid": os.getpid(),
                "at": time.time(),
                "dumped": self._dumped,
                "errors": dict(self._errors),
                "skipped": dict(self._skipped),
                "refused": self._refused,
                "passes": self._passes,
                "requests": self._requests,
                "forward_seconds": round(self._forward, 6),
                "waited_seconds": round(self._waited, 6),
            }

    def _touch(self) -> None:
        with self._lock:
            start, self._started = not self._started, True
        try:
            if start:
                threading.Thread(target=self._run, name="hs-dump-stats", daemon=True).start()
        except RuntimeError:  # the system has no more threads: the next change tries again
            with self._lock:
                self._started = False
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            self.write()
            time.sleep(_INTERVAL_S)

    def write(self) -> None:
        replace_json(self._path, self.snapshot())
