"""Which processes live: told by pid and start time, as Linux shows them."""

from __future__ import annotations

from typing import Optional


def start_ticks(pid: int) -> Optional[int]:
    """Field 22 of /proc/PID/stat; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def alive(pid: int, ticks: Optional[int] = None) -> bool:
    """Whether `pid` runs now and, where `ticks` is given, is the process that started then."""
    now = start_ticks(pid)
    return now is not None and (ticks is None or ticks == now)
