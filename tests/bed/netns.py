"""Network namespaces: entered by this thread for a while, or asked to run a command."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(pid: int) -> Iterator[None]:
    """This thread, and the threads and processes that it starts, in the network namespace of `pid`."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        _enter(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)
        os.close(other)


def _enter(descriptor: int) -> None:
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
