"""Whether a process lives: one that has ended stays in /proc until it is reaped, and on some machines for ever."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

PATIENCE = 60.0  # seconds; the machine may be busy


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_the_end(pids: Iterable[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in pids if lives(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
