"""A link that lasts: connects, watches by its own heartbeat, reconnects with backoff, and keeps the streams going."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, Protocol

from console.errors import OperatorError
from remote.wire.host import Hello


class LinkPhase(enum.Enum):
    CONNECTING = "connecting"
    LIVE = "live"
    STALE = "stale"  # no heartbeat for 5 s; the channel may still be open
    LOST = "lost"  # waiting to try again
    REFUSED = "refused"  # host key or login: only the operator can help; no retries
    CLOSED = "closed"


@dataclasses.dataclass(frozen=True)
class LinkState:
    """detail: what is being done, in words. since: monotonic seconds when this phase began. retry_at: likewise.

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


class LinkListener(Protocol):
    """Called from the link's threads: hand over, return at once."""

    def on_link(self, state: LinkState) -> None: ...

    def on_event(self, stream: str, value: Any) -> None:
        """value: the decoded wire value of that stream (ServerState, GpuSnapshot, ShmSnapshot, DumpsChange, LogLines)."""


AskHostKey = Callable[[str, str, str], bool]
"""(host, key type, SHA256 fingerprint) → the operator trusts it. Asked once, from the link's thread."""
