"""Seconds that go on while this machine sleeps: after a laptop's night, what it shows is as old as it is."""

from __future__ import annotations

import time

# time.monotonic stands still in a suspend, on Linux and on macOS; of clock_gettime's, these go on
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    return time.clock_gettime(_CLOCK)
