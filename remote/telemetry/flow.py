"""How fast room is filled and how fast it is emptied, told apart, by a clock that never jumps."""

from __future__ import annotations

import collections
from typing import NamedTuple, Optional

WINDOW = 60.0  # seconds
LEAST = 2.0  # seconds of looking before there is a rate at all


class Rates(NamedTuple):
    """Bytes a second over the last minute; neither is ever negative."""

    filling: float
    emptying: float


class Flow:
    """Looks at what is in use. Both ways are counted: one big deletion says nothing of how fast it fills."""

    def __init__(self) -> None:
        self._changes: collections.deque[tuple[float, int]] = collections.deque()
        self._began: Optional[float] = None
        self._last = 0
        self._place: object = None

    def add(self, now: float, used: int, place: object) -> None:
        """A look at monotonic second `now`. place: which file system it was; at another one all begins anew."""
        if self._began is None or place != self._place:
            self._changes.clear()
            self._began, self._place = now, place
        elif used != self._last:
            self._changes.append((now, used - self._last))
        self._last = used

    def read(self, now: float) -> Optional[Rates]:
        """None while too little was seen."""
        while self._changes and self._changes[0][0] <= now - WINDOW:
            self._changes.popleft()
        if self._began is None or now - self._began < LEAST:
            return None
        seconds = min(now - self._began, WINDOW)
        up = sum(change for _, change in self._changes if change > 0)
        down = sum(change for _, change in self._changes if change < 0)
        return Rates(up / seconds, -down / seconds)
