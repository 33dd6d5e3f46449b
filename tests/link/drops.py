"""Links that are dropped again and again, and what is left of that."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko
import pytest

from console.config.profile import Profile
from console.link import Link
from tests.link.listener import Listener
from tests.living import PATIENCE


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def open_channels() -> int:
    gc.collect()
    return sum(type(it) is paramiko.Channel and not it.closed for it in gc.get_objects())


def leave_nothing(
    profile: Profile, links: int, times: int, drop: Callable[[int, list[int]], object], there: Callable[[], Any]
) -> None:
    """No thread, file or channel here, nothing there; and each time there are new agents, which go on with the streams.

    The agents' calls are those of table.py. links: as many at once, each dropped so many times. drop: drops them all,
    given its number and the agents' pids. there: what runs there, as something that can be compared by <=: what a test
    before left may go meanwhile.
    """

    def now() -> tuple[Any, ...]:
        return threading.active_count(), open_files(), open_channels(), there()

    before = now()
    listeners = [Listener() for _ in range(links)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("console.link.BACKOFF", (0.01,))
        made = [Link(profile, listener.on_link) for listener in listeners]
        for listener, link in zip(listeners, made, strict=True):
            listener.watch(link, "watch.ticks")
        try:
            agents = [_another_agent(listener, 0) for listener in listeners]
            linked = now()
            for number in range(times):
                drop(number, agents)
                agents = [_another_agent(*each) for each in zip(listeners, agents, strict=True)]
            _wait_for_no_more(now, linked)
        finally:
            for link in made:
                link.close()
    _wait_for_no_more(now, before)


def _another_agent(listener: Listener, known: int) -> int:
    listener.wait(lambda: listener.events and listener.events[-1][1]["pid"] != known, PATIENCE)
    pid: int = listener.events[-1][1]["pid"]
    return pid


def _wait_for_no_more(now: Callable[[], tuple[Any, ...]], than: tuple[Any, ...]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not all(found <= allowed for found, allowed in zip(now(), than, strict=True)):
        assert time.monotonic() < deadline, (than, now(), [thread.name for thread in threading.enumerate()])
        time.sleep(0.05)
