"""Send what changed, at a steady pace, and now and then what didn't."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, TypeVar

Snapshot = TypeVar("Snapshot")

AGAIN = 5.0  # seconds after which a value is sent although nothing changed: who gets it knows how old it is


def changes(
    read: Callable[[], Snapshot],
    emit: Callable[[Any], None],
    cancelled: threading.Event,
    *,
    pause: Callable[[Snapshot], float],
    essence: Callable[[Snapshot], Any],
) -> None:
    """Emit what `read` returns, until `cancelled`: when its `essence` differs from the last one sent, or that is old.

    pause: seconds from the start of one look to the next, given what it saw.
    """
    sent: Any = None
    sent_at = 0.0
    while not cancelled.is_set():
        started = time.monotonic()
        seen = read()
        now = essence(seen)
        if now != sent or started - sent_at >= AGAIN:
            emit(seen)
            sent, sent_at = now, started
        cancelled.wait(max(0.05, pause(seen) - (time.monotonic() - started)))
