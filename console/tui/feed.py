"""From the link's threads to the screen: values wait here, one message at a time says that there are some."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from console.link import LinkState
from remote.wire.codec import decode
from remote.wire.dumps import DumpsChange
from remote.wire.server import LogLines, ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

STREAMS: dict[str, type] = {
    "watch.server": ServerState,
    "watch.gpus": GpuSnapshot,
    "watch.shm": ShmSnapshot,
    "watch.dumps": DumpsChange,
    "watch.log": LogLines,
}
LATEST = ("watch.server", "watch.gpus", "watch.shm")  # of these only the newest value counts


class Feed:
    """A LinkListener. `wake` is called from the link's threads when the first value waits; `take` empties it."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._links: list[LinkState] = []
        self._latest: dict[str, Any] = {}
        self._queue: list[Any] = []
        self._awake = False

    def on_link(self, state: LinkState) -> None:
        with self._lock:
            self._links.append(state)
        self._rouse()

    def on_event(self, stream: str, value: Any) -> None:
        kind = STREAMS[stream]
        seen = value if isinstance(value, kind) else decode(kind, value)
        with self._lock:
            if stream in LATEST:
                self._latest[stream] = seen
            else:
                self._queue.append(seen)
        self._rouse()

    def take(self) -> tuple[list[LinkState], list[Any]]:
        with self._lock:
            links, values = self._links, [*self._latest.values(), *self._queue]
            self._links, self._latest, self._queue = [], {}, []
            self._awake = False
        return links, values

    def _rouse(self) -> None:
        with self._lock:
            if self._awake:
                return
            self._awake = True
        self._wake()
