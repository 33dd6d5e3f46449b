"""What this process dumped, could not dump and left alone: `<dump folder>/.stats/<pid>.json`, for the console."""

from __future__ import annotations

import collections
import os
import threading
import time
from typing import Any

from .files import replace_json

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
        self._changed = threading.Event()
        self._started = False

    def dumped(self) -> None:
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
            }

    def _touch(self) -> None:
        with self._lock:
            start, self._started = not self._started, True
        if start:
            threading.Thread(target=self._run, name="hs-dump-stats", daemon=True).start()
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            self.write()
            time.sleep(_INTERVAL_S)

    def write(self) -> None:
        replace_json(self._path, self.snapshot())
