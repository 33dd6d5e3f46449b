"""How a demo that is told to end does so: everything is put back first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def ending_is_an_interrupt() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the block as Ctrl-C does, so that everything is put back."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's signature
        raise KeyboardInterrupt

    with _handling(interrupt):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Putting back is bounded in time and must not stop halfway because Ctrl-C is pressed twice."""
    with _handling(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handling(handler: signal._HANDLER) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can handlers be set
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in ENDINGS]
    try:
        yield
    finally:
        for number, old in before:
            signal.signal(number, old)
