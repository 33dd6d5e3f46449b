"""The agent's way out: whole frames, one after the other, and nothing else."""

from __future__ import annotations

import os
import threading


class Output:
    """Writes frames to a file descriptor. A console that does not read blocks the writers, so nothing piles up.

    broken: nobody can read any more. What is written then is dropped, so that an action comes to its end all the same.
    """

    def __init__(self, descriptor: int) -> None:
        self.broken = threading.Event()
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, frame: bytes) -> None:
        """Write all of `frame`."""
        left = memoryview(frame)
        with self._lock:
            try:
                while left and not self.broken.is_set():
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                self.broken.set()
