"""What goes on for a while: a load until it is ready, a log until the operator has seen enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from console.operations.calls import Agent, server_state
from remote.wire.codec import decode
from remote.wire.server import LogLines, Phase, ServerState

UNDER_WAY = (Phase.LOADING, Phase.STARTING)
UNWELL = 60.0  # seconds without an answer that a server may take when it has just begun to listen on a busy machine
QUIET = threading.TIMEOUT_MAX  # a followed log may be silent for ever; a lost link ends its call at once


def until_ready(agent: Agent, on_state: Callable[[ServerState], None], every: float = 1.0) -> ServerState:
    """Watch a load; returns the first state that is neither loading nor starting. `on_state` gets each change.

    There is no deadline: a big model loads for a quarter of an hour, and a dead one says so by its phase.
    A server that listens and does not answer gets `UNWELL` seconds before it is taken at its word.
    """
    last: tuple[object, ...] = ()
    well = time.monotonic()
    while True:
        state = server_state(agent)
        shown = (state.phase, state.load, state.detail)
        if shown != last:
            on_state(state)
            last = shown
        if state.phase in UNDER_WAY:
            well = time.monotonic()
        elif state.phase is not Phase.UNHEALTHY or time.monotonic() - well > UNWELL:
            return state
        time.sleep(every)


def log(agent: Agent, lines: int, on_lines: Callable[[LogLines], None]) -> None:
    """The last `lines` of the server's log and then every new one, until interrupted or the link is lost."""
    agent.call("watch.log", timeout=QUIET, on_event=lambda value: on_lines(decode(LogLines, value)), lines=lines)
