"""Who a link talks to: keeps all that is said, and waits for what should be."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from console.link import Link, LinkPhase, LinkState


class Listener:
    def __init__(self) -> None:
        self.states: list[LinkState] = []
        self.events: list[tuple[str, Any]] = []
        self._changed = threading.Condition()

    def on_link(self, state: LinkState) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def on_event(self, stream: str, value: Any) -> None:
        with self._changed:
            self.events.append((stream, value))
            self._changed.notify_all()

    def watch(self, link: Link, *streams: str) -> None:
        """Hear what these streams of `link` say, and start it."""
        for name in streams:
            link.stream(name, functools.partial(self.on_event, name))
        link.start()

    def wait(self, met: Callable[[], object], seconds: float) -> float:
        """Wait until `met`; returns how long it took."""
        began = time.monotonic()
        with self._changed:
            assert self._changed.wait_for(met, seconds), self.phases
        return time.monotonic() - began

    def until(self, phase: LinkPhase, seconds: float = 60.0) -> float:
        return self.wait(lambda: self.states and self.states[-1].phase is phase, seconds)

    @property
    def phases(self) -> list[LinkPhase]:
        return [s.phase for i, s in enumerate(self.states) if i == 0 or s.phase is not self.states[i - 1].phase]
