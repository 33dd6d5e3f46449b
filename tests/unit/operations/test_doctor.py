"""What the doctor asks a server that runs."""

from __future__ import annotations

from typing import Any

import pytest

from console.config.profile import Container, Profile, Server
from console.operations import doctor
from remote.wire.codec import encode
from remote.wire.plan import Check, Verdict
from remote.wire.server import Phase, Preflight, ServerState


@pytest.mark.parametrize("phase", Phase)
def test_only_a_server_that_says_it_is_ready_is_asked_for_a_token(phase: Phase) -> None:
    hangs = Check("requests", Verdict.BAD, "answers /health, but not requests", "Look at its log.")

    class Agent:
        def call(self, name: str, **_: Any) -> Any:
            return encode(ServerState(phase, "", 0.0, 8000) if name == "server.state" else hangs)

    assert doctor._requests(Agent()) == ((hangs,) if phase is Phase.READY else ())


@pytest.mark.parametrize("phase", Phase)
def test_a_server_that_runs_stands_in_no_good_dump_s_way(phase: Phase) -> None:
    held = tuple(Check(name, Verdict.BAD, "one runs on port 8000", "Stop it first.") for name in ("server", "port"))
    gpus = Check("gpus", Verdict.WARN, "0 free; in use by the server, or by what is left of one: GPU 0")
    checks = (Check("patch", Verdict.OK, "applied"), *held, gpus, Check("model", Verdict.OK, "there"))
    profile = Profile(container=Container(host="ct", python="python3"), server=Server(model_path="/m"))

    class Agent:
        def call(self, name: str, **_: Any) -> Any:
            return encode(ServerState(phase, "", 0.0, 8000, pid=7) if name == "server.state" else Preflight(checks))

    found = doctor._preflight(profile, Agent())
    if phase in (Phase.STARTING, Phase.LOADING, Phase.READY):
        running = Check("server", Verdict.OK, f"{phase.value} on port 8000, pid 7")
        assert found == (checks[0], running, checks[-1])
    else:
        assert found == checks
