"""The streams that a link keeps going: asked for anew on each new client, and again when one ends by itself."""

from __future__ import annotations

import time
from typing import Any

from console.client import AgentClient, OnEvent
from console.errors import LinkLost, OperatorError
from remote.wire.codec import decode
from remote.wire.dumps import DumpsChange
from remote.wire.server import LogLines, ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

AGAIN = 5.0  # seconds until a stream that ended by itself is asked for again
VALUES: dict[str, Any] = {
    "watch.server": ServerState,
    "watch.gpus": GpuSnapshot,
    "watch.shm": ShmSnapshot,
    "watch.dumps": DumpsChange,
    "watch.log": LogLines,
}


class Subscription:
    """One wanted stream. due: monotonic seconds when to ask for it, None while it runs."""

    def __init__(self, name: str, on_event: OnEvent, args: dict[str, Any]) -> None:
        self.name = name
        self.args = args
        self.due: float | None = 0.0
        self.problem = ""
        self._on_event = on_event

    def ask(self, client: AgentClient) -> None:
        self.due = None
        client.stream(self.name, self._take, self._ended, **self.args)

    def _take(self, value: Any) -> None:
        kind = VALUES.get(self.name)
        self.problem = ""
        seen = value if kind is None else decode(kind, value)
        if isinstance(seen, LogLines) and seen.place:
            self.args = {**self.args, "after": seen.place}  # the next link goes on there
        self._on_event(seen)

    def _ended(self, error: OperatorError | None) -> None:
        if not isinstance(error, LinkLost):
            self.problem = f"{self.name}: {error.what if error else 'it ended'}"
        self.due = time.monotonic() + AGAIN


class Subscriptions:
    """All streams of a link."""

    def __init__(self) -> None:
        self._wanted: list[Subscription] = []

    def add(self, name: str, on_event: OnEvent, **args: Any) -> None:
        self._wanted.append(Subscription(name, on_event, args))

    def restart(self) -> None:
        """Ask for all of them at the next `keep`: there is a new client."""
        for subscription in self._wanted:
            subscription.due = 0.0

    def keep(self, client: AgentClient) -> None:
        """Ask for those that are due."""
        now = time.monotonic()
        for subscription in self._wanted:
            if subscription.due is not None and subscription.due <= now and client.lost is None:
                try:
                    subscription.ask(client)
                except LinkLost:
                    return

    def problem(self) -> str:
        """What is wrong with the streams, in words; nothing when all run."""
        return "; ".join(filter(None, (subscription.problem for subscription in self._wanted)))
