"""A read-only profile is refused in the core, whatever face asks: nothing reaches the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.config.profile import Container, Profile, Server
from console.errors import Refused
from console.operations import calls
from remote.wire.dumps import Level
from remote.wire.plan import Plan

PROFILE = Profile(
    name="kimi", read_only=True, container=Container(host="ct", python="/p"), server=Server(model_path="/m")
)


class NoAgent:
    def call(self, name: str, **args: Any) -> Any:
        pytest.fail(f"{name} was asked")


@pytest.mark.parametrize(
    "leave_a_trace",
    [
        lambda agent: calls.run(agent, PROFILE, Plan("server.stop", "stop", True), print),
        lambda agent: calls.dump_test(agent, PROFILE, print),
        lambda agent: calls.canary(agent, PROFILE, print),
        lambda agent: calls.dumps_verify(agent, PROFILE, None, Level.MEANING, print),
    ],
)
def test_refused(leave_a_trace: Callable[[calls.Agent], Any]) -> None:
    with pytest.raises(Refused, match="read-only"):
        leave_a_trace(NoAgent())
