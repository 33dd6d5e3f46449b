"""What pings tell: how long a round takes and how far the container's clock is from ours."""

from __future__ import annotations

import time

from console import clock

WEIGHT = 0.3  # of a new round trip in the smoothed one


class Heartbeat:
    """round_trip: smoothed, seconds, None before the first. clock_offset: container's clock minus ours, seconds."""

    def __init__(self) -> None:
        self.round_trip: float | None = None
        self.clock_offset = 0.0

    def take(self, sent: float, theirs: float) -> None:
        """A ping sent at `sent` (by console.clock) has just been answered; their clock said `theirs`."""
        took = clock.now() - sent
        before = self.round_trip
        self.round_trip = took if before is None else before + WEIGHT * (took - before)
        if before is None or took <= 1.5 * before:  # a slow round says little about clocks
            self.clock_offset = theirs - (time.time() - took / 2)
