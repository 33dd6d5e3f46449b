"""A link that lasts: connects, watches by its own heartbeat, reconnects with backoff, and keeps the streams going."""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console import client as clients
from console import clock
from console.cancel import Cancel
from console.client import NOT_ASKED, AgentClient, OnEvent
from console.config.profile import Profile
from console.errors import (
    AuthenticationFailed,
    ConfigError,
    HostKeyChanged,
    HostKeyUnknown,
    NotAsked,
    OperatorError,
    as_operator_error,
)
from console.ssh import AskHostKey
from console.subscriptions import Subscriptions
from remote.wire.host import Hello

if TYPE_CHECKING:
    from console.ssh.connection import Connection

STALE_AFTER = 4.5  # seconds of silence; the heartbeat comes every 2
BACKOFF = (1.0, 2.0, 4.0)  # seconds; with an attempt under way and one that succeeds, live within 10 s of the return
STEADY = 10.0  # a link that lived as long starts its backoff anew
TICK = 0.25


class LinkPhase(enum.Enum):
    CONNECTING = "connecting"
    LIVE = "live"
    STALE = "stale"  # no heartbeat for 5 s; the channel may still be open
    LOST = "lost"  # waiting to try again
    REFUSED = "refused"  # host key or login: only the operator can help; no retries
    CLOSED = "closed"


@dataclasses.dataclass(frozen=True)
class LinkState:
    """detail: what is being done, in words. since: when this phase began, by console.clock. retry_at: likewise.

    clock_offset: container's clock minus ours, seconds: subtract it from the container's times to get ages.
    """

    phase: LinkPhase
    detail: str
    since: float
    round_trip_ms: float | None = None
    error: OperatorError | None = None
    retry_at: float | None = None
    hello: Hello | None = None
    clock_offset: float = 0.0


OnLink = Callable[[LinkState], None]
"""Called from the link's threads: hand over, return at once."""


class Link:
    """One container, watched for as long as the operator looks. All methods may be called from any thread."""

    def __init__(self, profile: Profile, on_link: OnLink, ask_host_key: AskHostKey | None = None) -> None:
        self._profile = profile
        self._on_link = on_link
        self._ask_host_key = ask_host_key
        self._streams = Subscriptions()
        self._state = LinkState(LinkPhase.CONNECTING, "not started", clock.now())
        self._failures = 0
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._telling = threading.RLock()
        self._connection: Connection | None = None
        self._client: AgentClient | None = None
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    @property
    def state(self) -> LinkState:
        return self._state

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """End the link, also while it connects; nothing is called back afterwards but the last state."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._wake.set()
        with self._lock:
            connection, client = self._connection, self._client
        if connection is not None:
            connection.close()
        if client is not None:
            client.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(0.5)
        self._set(LinkPhase.CLOSED, "closed")

    def retry_now(self) -> None:
        """Do not wait for the backoff, nor for the operator's reason to have been refused."""
        self._wake.set()

    def call(
        self,
        name: str,
        *,
        timeout: float = 30.0,
        on_event: OnEvent | None = None,
        cancel: Cancel | None = None,
        **args: Any,
    ) -> Any:
        """As AgentClient.call. Raises NotAsked at once when there is no link, LinkLost when it goes meanwhile."""
        client = self._client
        if client is None:
            raise NotAsked(f"{self._state.phase.value}: {self._state.detail}", NOT_ASKED)
        return client.call(name, timeout=timeout, on_event=on_event, cancel=cancel, **args)

    def stream(self, name: str, on_event: OnEvent, **args: Any) -> None:
        """One more stream, kept over reconnects; its values come decoded, from the link's threads like its states."""

        def take(value: Any) -> None:
            with self._telling:
                if not self._closed.is_set():
                    on_event(value)

        self._streams.add(name, take, **args)
        self._wake.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._set(LinkPhase.CONNECTING, f"connecting to {self._profile.container.host}")
            try:
                self._watch(self._connect())
            except (HostKeyUnknown, HostKeyChanged, AuthenticationFailed, ConfigError) as error:
                self._set(LinkPhase.REFUSED, error.what, error=error)
                self._pause(None)
            except Exception as error:  # a fault of ours too: the screen would say for ever how the link was before
                self._wait_lost(as_operator_error(error))

    def _connect(self) -> AgentClient:
        from console.ssh.connection import Connection

        connection = Connection(self._ask_host_key, self._tell_progress)
        with self._lock:
            self._connection = connection
        if self._closed.is_set():
            connection.close()
        return clients.start(connection, self._profile, self._tell_progress)

    def _watch(self, client: AgentClient) -> None:
        """Keep the streams of a live client going and tell how it is. Raises LinkLost when it is over."""
        began = clock.now()
        with self._lock:
            self._client = client
        client.on_lost = lambda _: self._wake.set()
        self._streams.restart()
        try:
            while client.lost is None and not self._closed.is_set():
                self._streams.keep(client)
                self._tell_health(client)
                self._wake.wait(TICK)
                self._wake.clear()
        finally:
            with self._lock:
                self._client = None
            client.close()
            if clock.now() - began > STEADY:
                self._failures = 0
        if client.lost is not None:
            raise client.lost

    def _tell_health(self, client: AgentClient) -> None:
        silence, beat = client.silence, client.heartbeat
        stale = silence > STALE_AFTER
        detail = f"silent for {silence:.0f} s" if stale else self._streams.problem() or "live"
        round_trip = None if beat.round_trip is None else beat.round_trip * 1000
        phase = LinkPhase.STALE if stale else LinkPhase.LIVE
        before = self._state
        if (phase, detail, round_trip) != (before.phase, before.detail, before.round_trip_ms):
            self._set(phase, detail, round_trip_ms=round_trip, clock_offset=beat.clock_offset, hello=client.hello)

    def _wait_lost(self, error: OperatorError) -> None:
        pause = BACKOFF[min(self._failures, len(BACKOFF) - 1)]
        self._failures += 1
        self._set(LinkPhase.LOST, error.what, error=error, retry_at=clock.now() + pause)
        self._pause(pause)

    def _pause(self, seconds: float | None) -> None:
        self._wake.clear()
        if not self._closed.is_set():
            self._wake.wait(seconds)
            self._wake.clear()

    def _set(self, phase: LinkPhase, detail: str, **more: Any) -> None:
        """Change the state and tell it. The hello and the clock's offset outlive a loss."""
        with self._telling:  # closed by another thread meanwhile, it must not come to life again
            if self._closed.is_set() and phase is not LinkPhase.CLOSED:
                return
            before = self._state
            since = before.since if phase is before.phase else clock.now()
            kept = {"hello": before.hello, "clock_offset": before.clock_offset}
            self._state = LinkState(phase, detail, since, **{**kept, **more})
            self._on_link(self._state)

    def _tell_progress(self, detail: str) -> None:
        self._set(LinkPhase.CONNECTING, detail)
