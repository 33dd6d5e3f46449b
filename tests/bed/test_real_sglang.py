"""The whole recovery of a real SGLang server in the container: frozen, deaf to SIGTERM, and started again each time.

The first is started by hand, and restarted with its flags. Of every action here the link goes midway.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.config.profile import Dump, Profile, Server
from console.demo.engine import ENVIRONMENT, Engine, build
from console.demo.profile import FLAGS, LAYERS
from console.operations import calls, fate, follow
from console.operations.recovery_wish import Wish
from remote.wire.plan import Plan, StepResult, Verdict
from remote.wire.server import Phase, ServerState
from tests.bed import line
from tests.bed.conftest import profile_of
from tests.bed.container import PORT, Ground
from tests.bed.machines import Bed
from tests.bed.recovering import agent_of, recovery

# loaded by every Python of the server: whatever handler SIGTERM is given, it is ignored
DEAF = "/opt/deaf"
DEAF_MODULE = """
import signal
give = signal.signal
signal.signal = lambda number, handler: give(number, signal.SIG_IGN if number == signal.SIGTERM else handler)
give(signal.SIGTERM, signal.SIG_IGN)
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return build(lambda progress: print(f"{progress.seconds:7.1f} s  {progress.stage}", file=sys.stderr, flush=True))


@pytest.fixture(scope="module")
def real_bed(engine: Engine) -> Iterator[Bed]:
    mounts = {str(engine.folder.resolve())}
    if sys.base_prefix != "/usr":
        mounts.add(str(Path(sys.base_prefix).resolve()))
    bed = Bed(shm="512m", mounts=tuple(sorted(mounts))).up()
    yield bed
    bed.down()


@pytest.fixture
def real(engine: Engine, real_bed: Bed) -> Iterator[Profile]:
    """A profile for it, as a demo's, with the patch applied."""
    base = profile_of(real_bed)
    folder = engine.folder.resolve()
    server = Server(model_path=str(folder / "model"), port=PORT, flags=FLAGS, env=dict(ENVIRONMENT))
    container = msgspec.structs.replace(base.container, python=str(folder / "venv" / "bin" / "python"))
    dump = Dump(folder="/dev/shm/sglang_hs", layers=LAYERS)
    with real_bed.laptop():
        yield msgspec.structs.replace(base, container=container, server=server, dump=dump)


def act(profile: Profile, ground: Ground, action: str) -> None:
    """The link goes while it is under way: its outcome is learned over the next one, and it was done once."""
    with agent_of(profile) as agent:
        assert agent is not None
        plan = calls.plan(agent, action)
        with cut_off(ground, action) as steps:
            outcome = calls.run(agent, profile, plan, steps.append)
    assert outcome.ok, outcome


@contextlib.contextmanager
def cut_off(ground: Ground, action: str) -> Iterator[list[StepResult]]:
    """What is asked meanwhile is asked, however soon it is done: from then on nothing is heard until the next link."""
    before, steps = ground.recorded(action), list[StepResult]()

    def cut() -> None:
        try:
            ground.wait_until(lambda: ground.recorded(action) != before, f"no {action} has begun")
            ground.kill_sessions()
        finally:
            line.mend()

    line.deafen()
    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        yield steps
    finally:
        cutting.join()
    titles = [step.title for step in steps]
    assert titles.index(fate.LOST) < titles.index(fate.LEARNED)
    assert ground.recorded(action) == [*before, "begin", "end"]


def start(profile: Profile, ground: Ground, action: str = "server.start") -> ServerState:
    act(profile, ground, action)
    return until_ready(profile)


def until_ready(profile: Profile) -> ServerState:
    with agent_of(profile) as agent:
        assert agent is not None
        state = follow.until_ready(agent, lambda state: None)
    assert state.phase is Phase.READY, state
    return state


def plan_of(profile: Profile, action: str) -> Plan:
    with agent_of(profile) as agent:
        assert agent is not None
        return calls.plan(agent, action)


def start_by_hand(profile: Profile, ground: Ground, flag: str) -> ServerState:
    """As somebody types it who knows what dumping needs, with one flag more than the profile has."""
    typed = plan_of(profile, "server.start").steps[0].command
    ground.sh(f"cd / && setsid {typed} {flag} >/root/by_hand.log 2>&1 </dev/null &")
    return until_ready(profile)


def state_of(profile: Profile) -> ServerState:
    with agent_of(profile) as agent:
        assert agent is not None
        return calls.server_state(agent)


def pass_a_test_request(profile: Profile) -> None:
    with agent_of(profile) as agent:
        assert agent is not None
        test = calls.dump_test(agent, profile, lambda step: None)
        assert test.ok, test.checks


def run_a_canary_and_lose_the_link(profile: Profile, ground: Ground) -> None:
    """It is not gone on with where nobody hears of it; what it found by then is learned."""
    with agent_of(profile) as agent:
        assert agent is not None
        with cut_off(ground, "canary") as steps:
            canary = calls.canary(agent, profile, steps.append)
    assert canary.stopped or canary.verdict is Verdict.OK, canary


def recover_and_say(profile: Profile, what: str, wish: Wish | None = None) -> str:
    began = time.monotonic()
    done = recovery(profile, wish)
    assert done.ok, done.truth
    print(f"{what}: recovered in {time.monotonic() - began:.1f} s")
    assert state_of(profile).phase is Phase.STOPPED
    return done.ran


def test_the_whole_recovery(real: Profile, real_bed: Bed) -> None:
    ground = Ground(real_bed)
    ground.sh(f"mkdir -p {DEAF} && cat >{DEAF}/sitecustomize.py", DEAF_MODULE)
    act(real, ground, "patch.apply")

    flag = "--random-seed=7"
    state = start_by_hand(real, ground, flag)
    assert not any(process.ours for process in state.processes), state
    assert "did not start" in plan_of(real, "server.stop").notes[0]
    assert f"without {flag.replace('=', ' ')}" in plan_of(real, "server.restart").basis["differs"]
    pid, state = state.pid, start(real, ground, "server.restart")
    assert state.pid != pid
    assert all(process.ours for process in state.processes), state
    assert flag.replace("=", " ") in state.processes[0].command, "its flags are kept"
    ground.sh(f"kill -STOP {state.pid}")
    assert state_of(real).phase is Phase.UNHEALTHY
    assert ground.is_held()
    ran = recover_and_say(real, "a frozen parent")
    assert f"{state.pid}" in ran
    assert not ground.is_held()

    deaf = msgspec.structs.replace(
        real, server=msgspec.structs.replace(real.server, env={**real.server.env, "PYTHONPATH": DEAF})
    )
    state = start(deaf, ground)
    pass_a_test_request(deaf)
    (scheduler,) = [p.pid for p in state.processes if p.command.startswith("sglang::scheduler")]
    ground.sh(f"kill -STOP {scheduler}")
    ran = recover_and_say(deaf, "a parent that ignores SIGTERM, whose /health is well and whose requests hang")
    assert re.search(rf"kill -KILL [\d ]*\b{state.pid}\b", ran), ran

    start(real, ground)
    pass_a_test_request(real)
    run_a_canary_and_lose_the_link(real, ground)
    act(real, ground, "server.stop")
    assert not ground.is_held()
    act(real, ground, "patch.revert")
