"""What time it is, in one place, so that a picture can be taken of a moment."""

from __future__ import annotations

import time
from typing import Protocol

from console import clock


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that go on while the laptop sleeps."""

    def wall(self) -> float:
        """Seconds since the epoch."""


class SystemClock:
    def monotonic(self) -> float:
        return clock.now()

    def wall(self) -> float:
        return time.time()
