"""What the doctor asks a server that runs."""

from __future__ import annotations

from typing import Any

import pytest

from console.operations import doctor
from remote.wire.codec import encode
from remote.wire.plan import Check, Verdict
from remote.wire.server import Phase, ServerState


@pytest.mark.parametrize("phase", Phase)
def test_only_a_server_that_says_it_is_ready_is_asked_for_a_token(phase: Phase) -> None:
    hangs = Check("requests", Verdict.BAD, "answers /health, but not requests", "Look at its log.")

    class Agent:
        def call(self, name: str, **_: Any) -> Any:
            return encode(ServerState(phase, "", 0.0, 8000) if name == "server.state" else hangs)

    assert doctor._requests(Agent()) == ((hangs,) if phase is Phase.READY else ())
