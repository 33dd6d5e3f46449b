"""From the link's threads to the screen: values wait here, one message at a time says that there are some."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from console.link import LinkState
from remote.wire.server import ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

LATEST = (ServerState, GpuSnapshot, ShmSnapshot)  # of these only the newest value counts


class Feed:
    """`wake` is called from the link's threads when the first value waits; `take` empties it."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._links: list[LinkState] = []
        self._latest: dict[type, Any] = {}
        self._queue: list[Any] = []
        self._awake = False

    def on_link(self, state: LinkState) -> None:
        with self._lock:
            self._links.append(state)
        self._rouse()

    def on_value(self, value: Any) -> None:
        """value: of a stream."""
        with self._lock:
            if isinstance(value, LATEST):
                self._latest[type(value)] = value
            else:
                self._queue.append(value)
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
