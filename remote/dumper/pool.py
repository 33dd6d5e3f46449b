"""Host memory for captured states: allocated and pinned once, lent to passes. It bounds what waits to be written."""

from __future__ import annotations

import threading
import time
from typing import Any, Optional

import torch

from .problem import DumpFailure, Problem

_ALIGNMENT = 4096
_AGAIN_S = 30.0  # memory that can't be had is not asked for in every pass: that may take a second each time


class Loan:
    """A piece of the pool, shared by the requests of a pass. memory: uint8 tensor of the size that was asked for."""

    def __init__(self, pool: Pool, memory: Any, place: Optional[tuple[int, int]]) -> None:
        self.memory = memory
        self._pool = pool
        self._place = place
        self._holders = 1
        self._lock = threading.Lock()

    def share(self, holders: int) -> None:
        """To be called once, before any of them releases it."""
        self._holders = holders

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            self._pool.take_back(self._place)


class Pool:
    """size: bytes; a pass that needs more gets memory of its own, while nothing else is lent."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory: Optional[Any] = None
        self._free = [(0, size)]  # (start, end), in order, none next to another
        self._lent = 0
        self._again = 0.0  # when it may be allocated
        self._changed = threading.Condition()

    def warm(self, pin: bool) -> None:
        """Allocate it. Pinning takes about a second for 4 GiB: to be done before the first request.

        Raises DumpFailure when it can't be had.
        """
        with self._changed:
            if self._memory is None and self._size:
                self._memory = self._allocate(self._size, pin)

    def lend(self, size: int, pin: bool, patience: float) -> Optional[Loan]:
        """Wait until `size` bytes are free; None when they are not after `patience` seconds. Raises DumpFailure."""
        size = max(_ALIGNMENT, -(-size // _ALIGNMENT) * _ALIGNMENT)
        self.warm(pin)
        until = time.monotonic() + patience
        with self._changed:
            while True:
                loan = self._lend(size, pin)
                left = until - time.monotonic()
                if loan is not None or left <= 0 or not self._changed.wait(left):
                    return loan

    def _lend(self, size: int, pin: bool) -> Optional[Loan]:
        if size > self._size:
            if self._lent:
                return None
            memory = self._allocate(size, pin)
            self._lent += 1
            return Loan(self, memory, None)
        for at, (start, end) in enumerate(self._free):
            if end - start >= size and self._memory is not None:
                self._free[at : at + 1] = [(start + size, end)] if end - start > size else []
                self._lent += 1
                return Loan(self, self._memory[start : start + size], (start, start + size))
        return None

    def _allocate(self, size: int, pin: bool) -> Any:
        if time.monotonic() < self._again:
            raise self._none(size)
        try:
            return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=pin)
        except (RuntimeError, MemoryError) as error:
            self._again = time.monotonic() + _AGAIN_S
            raise self._none(size, f"{error}. ") from error

    def _none(self, size: int, why: str = "") -> DumpFailure:
        smaller = ", or start with a smaller SGLANG_HS_DUMP_POOL_MIB" if size == self._size else ""
        detail = f"{why}{size:,} bytes. Free memory{smaller}"
        return DumpFailure(Problem("there is no memory for states that wait to be written", detail))

    def take_back(self, place: Optional[tuple[int, int]]) -> None:
        with self._changed:
            self._lent -= 1
            if place is not None:
                self._free = _joined([*self._free, place])
            self._changed.notify_all()


def _joined(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
