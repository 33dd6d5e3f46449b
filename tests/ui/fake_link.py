"""A test double for console.link.Link: says and answers what a test gives it, from a thread as the real one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from console.cancel import Cancel
from console.config.profile import Profile
from console.errors import LinkLost, OperatorError
from console.link import LinkPhase, LinkState, OnLink
from console.ssh import AskHostKey
from remote.wire.codec import encode
from remote.wire.host import Hello

HELLO = Hello("0.1.0", "abc", 4242, "/root/ml-env/bin/python3", "3.12.1", "ct129", "root", 0.0)


class FrozenClock:
    """Time stands still until a test moves it."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self.now = 1000.0
        self.start = wall - self.now

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.start + self.now


class FakeLink:
    """answers: by call name (plan and run: by 'plan server.start'), a value, an OperatorError, or a callable.

    Each call is kept in `asked`, and in `cancelled` when it was. steps: what a call streams before its answer.
    """

    def __init__(self, profile: Profile, on_link: OnLink, ask_host_key: AskHostKey) -> None:
        self.profile = profile
        self.on_link = on_link
        self.ask_host_key = ask_host_key
        self.answers: dict[str, Any] = {}
        self.steps: dict[str, list[Any] | Callable[[dict[str, Any]], list[Any]]] = {}
        self.cancelled: list[str] = []
        self.asked: list[str] = []
        self.streams: dict[str, Callable[[Any], None]] = {}
        self.closed = threading.Event()
        self.connected = threading.Event()
        self.retried = 0
        self.on_start: Callable[[FakeLink], None] = lambda link: None

    def start(self) -> None:
        self.on_start(self)

    def close(self) -> None:
        self.closed.set()

    def retry_now(self) -> None:
        self.retried += 1

    def stream(self, name: str, on_event: Callable[[Any], None], **args: Any) -> None:
        self.streams[name] = on_event

    def say(self, **values: Any) -> None:
        """Let streams send values: say(server=ServerState(…), log=LogLines(…))."""
        for name, value in values.items():
            self.streams[f"watch.{name}"](value)

    def be(self, phase: LinkPhase, detail: str = "", **more: Any) -> None:
        more.setdefault("since", 1000.0)
        if phase is LinkPhase.LIVE:
            more.setdefault("round_trip_ms", 12.0)
            more.setdefault("hello", HELLO)
        self.on_link(LinkState(phase, detail, **more))

    def call(
        self,
        name: str,
        *,
        timeout: float = 30.0,
        on_event: Callable[[Any], None] | None = None,
        cancel: Cancel | None = None,
        **args: Any,
    ) -> Any:
        key = f"{name} {args['action']}" if "action" in args else name
        self.asked.append(key)
        if self.closed.is_set():
            raise LinkLost("the link is closed")
        if cancel is not None:
            cancel.bind(lambda: self.cancelled.append(key))
        steps = self.steps.get(key, [])
        for step in steps(args) if callable(steps) else steps:
            if on_event is not None:
                on_event(encode(step))
        answer = self.answers.get(key, LinkLost(f"nothing answers {key}"))
        if callable(answer):
            answer = answer(args)
        if isinstance(answer, OperatorError):
            raise answer
        return encode(answer)
