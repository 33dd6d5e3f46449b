"""Send what changed, at a steady pace."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, TypeVar

Snapshot = TypeVar("Snapshot")


def changes(
    read: Callable[[], Snapshot],
    emit: Callable[[Any], None],
    cancelled: threading.Event,
    *,
    pause: Callable[[Snapshot], float],
    essence: Callable[[Snapshot], Any],
) -> None:
    """Emit what `read` returns whenever its `essence` differs from the last one sent, until `cancelled`.

    pause: seconds from the start of one look to the next, given what it saw.
    """
    sent: Any = None
    while not cancelled.is_set():
        started = time.monotonic()
        seen = read()
        now = essence(seen)
        if now != sent:
            emit(seen)
            sent = now
        cancelled.wait(max(0.05, pause(seen) - (time.monotonic() - started)))
