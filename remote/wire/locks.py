"""Files that one process at a time may work on."""

from __future__ import annotations

import fcntl
import time


def take(handle: int, patience: float = 0.0) -> bool:
    """Lock an open file or folder for as long as it is open. False when somebody has it for `patience` seconds.

    Raises OSError where the file system has no locks.
    """
    deadline = time.monotonic() + patience
    while not _taken(handle):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
