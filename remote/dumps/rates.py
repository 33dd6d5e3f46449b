"""Rates over the last ten seconds, by a clock that never jumps."""

from __future__ import annotations

import collections

WINDOW_S = 10.0


class Rates:
    """Counts finished requests in a sliding window. All times are monotonic seconds."""

    def __init__(self) -> None:
        self._events: collections.deque[tuple[float, int, int]] = collections.deque()
        self._tokens = 0
        self._bytes = 0

    def add(self, at: float, tokens: int, size: int) -> None:
        """One finished request, seen at `at`; times never go back."""
        self._events.append((at, tokens, size))
        self._tokens += tokens
        self._bytes += size

    def read(self, now: float) -> tuple[float, float, float]:
        """Requests, tokens and bytes per second over the window that ends `now`."""
        while self._events and self._events[0][0] <= now - WINDOW_S:
            _, tokens, size = self._events.popleft()
            self._tokens -= tokens
            self._bytes -= size
        return len(self._events) / WINDOW_S, self._tokens / WINDOW_S, self._bytes / WINDOW_S
