"""The dump folder: numbers claimed once and for all, leftovers of dead writers, the rename that publishes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from typing import Callable, Optional

from . import log
from .process import alive

_DIGITS = 15  # of a number; a longer one is nobody's, and going on from it would leave what readers take for a number
_NUMBERED = re.compile(r"req_(0|[1-9]\d{0,14})|\.req_(0|[1-9]\d{0,14})\.\d+", re.ASCII)
_LEFTOVER = re.compile(r"\.req_\d+\.(\d+)", re.ASCII)
_WIDTH = 20  # the counter keeps its size, so that it can still be written when the file system is full


class Folder:
    """Several processes and threads may use one folder at once.

    remade: called when the folder was deleted under a running server and had to be made again.
    """

    def __init__(self, path: str, remade: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._remade = remade
        self._pid = os.getpid()
        self._floor: Optional[int] = None  # the next free number as this process knows it, None before it looked

    def prepare(self) -> None:
        """Make the folder and its counter, and remove what dead writers left unfinished. Raises OSError."""
        with self._locked() as counter:
            self._store(counter, self._next(counter))
        for name in os.listdir(self.path):
            match = _LEFTOVER.fullmatch(name)
            # this process has written nothing yet: what bears its pid is of an earlier one
            if match and (int(match[1]) == self._pid or not alive(int(match[1]))):
                shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)

    def claim(self) -> int:
        """A number that no request has, had, or will have. Raises OSError."""
        with self._locked() as counter:
            number = self._next(counter)
            if os.path.lexists(self._request(number)):
                number = self._above_highest()
            self._store(counter, number + 1)
            self._floor = number + 1
            return number

    def aside(self, number: int) -> str:
        """A new empty directory in which request `number` is written. Raises OSError."""
        path = os.path.join(self.path, f".req_{number}.{self._pid}")
        os.makedirs(path)  # the folder too, when it was deleted after the claim
        return path

    def publish(self, aside: str, number: int) -> None:
        os.rename(aside, self._request(number))

    def _request(self, number: int) -> str:
        return os.path.join(self.path, f"req_{number}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The counter's descriptor, locked, and still the file that others would open."""
        while True:
            os.makedirs(self.path, exist_ok=True)
            path = os.path.join(self.path, ".counter")
            # a link there would be somebody else's: the folder may lie where everybody can write
            counter = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(counter, fcntl.LOCK_EX)
                if _same_file(counter, path):
                    yield counter
                    return
            finally:
                os.close(counter)

    def _next(self, counter: int) -> int:
        text = os.pread(counter, 64, 0).strip()
        stored = int(text) if text.isdigit() and len(text.lstrip(b"0")) <= _DIGITS else None
        if stored is not None and self._floor is not None:
            return max(stored, self._floor)
        if self._floor is not None:
            log.say(f"{self.path} was deleted or lost its counter; numbers go on from {self._floor}")
            self._remade()
        self._floor = max(stored or 0, self._floor or 0, self._above_highest())
        return self._floor

    def _store(self, counter: int, number: int) -> None:
        os.pwrite(counter, b"%0*d\n" % (_WIDTH, number), 0)

    def _above_highest(self) -> int:
        found = (_NUMBERED.fullmatch(name) for name in os.listdir(self.path))
        return max((int(match[1] or match[2]) + 1 for match in found if match), default=0)


def _same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
