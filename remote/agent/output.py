"""The agent's way out: whole frames, one after the other, and nothing else."""

from __future__ import annotations

import os
import threading


class Output:
    """Writes frames to a file descriptor. A console that does not read blocks the writers, so nothing piles up."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, frame: bytes) -> None:
        """Write all of `frame`. When nobody can read it any more the process ends: it is the console's alone."""
        left = memoryview(frame)
        with self._lock:
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                os._exit(0)
