"""A bound on the memory of states that wait to be written. When it is spent, the forward waits: back-pressure."""

from __future__ import annotations

import threading
import time


class Budget:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._freed = threading.Condition()

    def take(self, size: int, timeout: float) -> bool:
        """Wait until `size` bytes fit, at most `timeout` seconds. A pass larger than the limit fits alone."""
        until = time.monotonic() + timeout
        with self._freed:
            while self._used and self._used + size > self._limit:
                left = until - time.monotonic()
                if left <= 0 or not self._freed.wait(left):
                    return False
            self._used += size
            return True

    def give_back(self, size: int) -> None:
        with self._freed:
            self._used -= size
            self._freed.notify_all()


class Lease:
    """Memory of one pass, shared by its requests: given back when the last of them was written."""

    def __init__(self, budget: Budget, size: int, holders: int) -> None:
        self._budget = budget
        self._size = size
        self._holders = holders
        self._taken = False
        self._lock = threading.Lock()

    def take(self, timeout: float) -> bool:
        self._taken = self._budget.take(self._size, timeout)
        return self._taken

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last and self._taken:
            self._budget.give_back(self._size)
