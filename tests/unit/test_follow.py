"""Watching a load: which states end the wait."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from console.operations import follow
from remote.wire.codec import encode
from remote.wire.server import Phase, ServerState


class Answers:
    """An agent that tells one phase after the other, the last one for ever."""

    def __init__(self, *phases: Phase) -> None:
        self.phases = list(phases)

    def call(
        self, name: str, *, timeout: float = 30.0, on_event: Callable[[Any], None] | None = None, **args: Any
    ) -> Any:
        phase = self.phases.pop(0) if len(self.phases) > 1 else self.phases[0]
        return encode(ServerState(phase=phase, detail="", at=0.0, port=8000))


def test_a_log_is_followed_however_quiet_it_is() -> None:
    """The longest that a queue can be told to wait; a lost link wakes it."""
    waits: list[float] = []

    class Quiet(Answers):
        def call(
            self, name: str, *, timeout: float = 30.0, on_event: Callable[[Any], None] | None = None, **args: Any
        ) -> Any:
            waits.append(timeout)
            queue: SimpleQueue[None] = SimpleQueue()
            queue.put(None)
            return queue.get(timeout=timeout)

    follow.log(Quiet(Phase.READY), 10, lambda lines: None)
    assert waits[0] > 365 * 86400


@pytest.mark.parametrize("end", [Phase.READY, Phase.CRASHED, Phase.STOPPED, Phase.ORPHANS, Phase.PORT_HELD])
def test_a_load_is_watched_to_its_end(end: Phase) -> None:
    seen: list[Phase] = []
    answers = Answers(Phase.LOADING, Phase.LOADING, Phase.STARTING, end)
    assert follow.until_ready(answers, lambda state: seen.append(state.phase), every=0).phase is end
    assert seen == [Phase.LOADING, Phase.STARTING, end], "each change once"


def test_a_server_may_hesitate_when_it_begins_to_listen() -> None:
    answers = Answers(Phase.LOADING, Phase.UNHEALTHY, Phase.UNHEALTHY, Phase.READY)
    assert follow.until_ready(answers, lambda state: None, every=0).phase is Phase.READY


def test_a_server_that_never_answers_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "UNWELL", 0.05)
    answers = Answers(Phase.STARTING, Phase.UNHEALTHY)
    assert follow.until_ready(answers, lambda state: None, every=0.01).phase is Phase.UNHEALTHY
