"""The canary that follows a start by itself: when it runs, when it doesn't, and that it is in the way of nothing."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest
from textual.pilot import Pilot

from console.errors import LinkLost, NotAsked
from console.tui.screens.canary import CanaryScreen
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.run import RunScreen
from remote.wire.audit import Became, Fate
from remote.wire.dumps import Canary
from remote.wire.plan import Outcome
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, showing, toasts, until, words

LOADING = dataclasses.replace(scenes.LOADING, pid=50001)
READY = dataclasses.replace(scenes.READY, pid=50001, age=3.0)
UNPATCHED = dataclasses.replace(READY, patch_loaded=None)
CRASHED = dataclasses.replace(scenes.CRASHED, pid=None)
ANOTHER = dataclasses.replace(READY, pid=60001)
JUDGED = dataclasses.replace(READY, canary=scenes.JUDGED_WELL)


async def start(pilot: Pilot[None]) -> None:
    await pilot.press("s")
    await showing(pilot, ConfirmScreen)
    await pilot.press("right", "enter")
    await until(pilot, lambda: not app_of(pilot)._actor.running)
    await pilot.press("escape")
    await showing(pilot, MainScreen)


async def says(pilot: Pilot[None], stage: Stage, *states: Any) -> None:
    for state in states:
        link_of(stage).say(server=state)
        await settled(pilot)


def going_on(stage: Stage) -> threading.Event:
    """The canary goes on until it is cancelled, or until this is set."""
    go = threading.Event()

    def canary(args: dict[str, Any]) -> Canary:
        while not go.wait(0.01):
            if link_of(stage).cancelled or link_of(stage).closed.is_set():
                return scenes.CANARY_CANCELLED
        return scenes.CANARY_WELL

    link_of(stage).answers["canary"] = canary
    link_of(stage).steps["canary"] = []
    return go


def canaries(stage: Stage) -> int:
    return link_of(stage).asked.count("canary")


async def test_it_runs_when_the_server_is_ready_and_says_what_it_waits_for() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        go = going_on(stage)
        await start(pilot)
        await says(pilot, stage, scenes.READY, LOADING)
        assert canaries(stage) == 0, "what is known of the old server, and a load, start none"
        await says(pilot, stage, READY)
        await until(pilot, lambda: canaries(stage) == 1)
        stage.clock.now += 42
        app_of(pilot).look()
        await until(pilot, lambda: "canary waits for the first answer, while kernels compile, 0:42" in words(pilot))
        go.set()
        await until(pilot, lambda: "canary well, just now" in words(pilot))
        assert "Canary: well: the dumps of this server mean what they should" in toasts(pilot)
        await says(pilot, stage, JUDGED, LOADING, READY)
        assert canaries(stage) == 1, "one a start"


NONE = {
    "it dumps nothing": ((LOADING, UNPATCHED), "no patch loaded"),
    "another console's canary was faster": ((LOADING, JUDGED), "canary well"),
    "it ended before it was ready": ((LOADING, CRASHED, READY), "no canary since this start: C"),
    "another server came in between": ((LOADING, ANOTHER), "no canary since this start: C"),
}


@pytest.mark.parametrize("why", NONE)
async def test_none_where(why: str) -> None:
    states, told = NONE[why]
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await start(pilot)
        await says(pilot, stage, *states)
        assert told in words(pilot)
        assert canaries(stage) == 0


@pytest.mark.parametrize("end", [LinkLost("the line was cut"), Outcome("server.start", False, "It ended at once.")])
async def test_none_where_the_start_did_not_go_well(end: Any) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["audit.fate"] = Fate(Became.CUT_OFF, "10:00")
        link_of(stage).answers["run server.start"] = end
        await start(pilot)
        await says(pilot, stage, LOADING, READY)
        assert "no canary since this start: C" in words(pilot)
        assert canaries(stage) == 0


async def test_none_where_this_console_started_nothing() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await says(pilot, stage, LOADING, READY)
        assert "no canary since this start: C" in words(pilot)
        assert canaries(stage) == 0


async def test_a_server_that_is_stopped_meanwhile_is_not_called_faulty() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        going_on(stage)
        await start(pilot)
        await says(pilot, stage, LOADING, READY)
        await until(pilot, lambda: canaries(stage) == 1)
        await pilot.press("x")
        await showing(pilot, ConfirmScreen)
        assert link_of(stage).cancelled == [], "looking at a plan ends nothing"
        await pilot.press("right", "enter")
        await until(pilot, lambda: "The server is gone." in words(pilot))
        await until(pilot, lambda: app_of(pilot).picture.proving is None)
        assert link_of(stage).cancelled == ["canary"]
        assert "Canary: cancelled: it says nothing" in toasts(pilot)
        await pilot.press("escape")
        await says(pilot, stage, READY)
        assert "no canary since this start: C" in words(pilot)


async def test_other_actions_go_on_beside_it_and_its_key_shows_its_page() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        go = going_on(stage)
        await start(pilot)
        await says(pilot, stage, LOADING, READY)
        await until(pilot, lambda: canaries(stage) == 1)
        await pilot.press("t")
        await showing(pilot, RunScreen)
        await until(pilot, lambda: "req_1287: every check is well" in words(pilot))
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        await pilot.press("C")
        await showing(pilot, CanaryScreen)
        await until(pilot, lambda: "compiles kernels" in words(pilot))
        assert "waiting for the first answer, for 0:00" in words(pilot)
        go.set()
        await until(pilot, lambda: "✓ well" in words(pilot))
        assert canaries(stage) == 1
        assert "Canary:" not in toasts(pilot), "it is in view"


async def test_the_operators_own_is_not_doubled() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        go = going_on(stage)
        await start(pilot)
        await says(pilot, stage, LOADING)
        await pilot.press("C")
        await until(pilot, lambda: canaries(stage) == 1)
        link_of(stage).say(server=READY)
        await settled(pilot)
        go.set()
        await until(pilot, lambda: "✓ well" in words(pilot))
        assert canaries(stage) == 1


async def lose_the_canarys_link(pilot: Pilot[None], stage: Stage) -> None:
    link_of(stage).answers["canary"] = LinkLost("the line was cut", "It goes on trying.")
    link_of(stage).answers["audit.fate"] = NotAsked("lost: refused")
    await start(pilot)
    await says(pilot, stage, LOADING, READY)
    await until(pilot, lambda: "canary waits for the link" in words(pilot))


async def test_a_link_that_is_lost_leaves_no_verdict() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await lose_the_canarys_link(pilot, stage)
        link_of(stage).answers["audit.fate"] = Fate(Became.CUT_OFF, "10:00")
        await until(pilot, lambda: "It was cut off midway" in toasts(pilot))
        await until(pilot, lambda: "no canary since this start: C" in words(pilot))
        assert canaries(stage) == 1


async def test_the_operators_own_goes_before_one_that_waits_for_its_link() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await lose_the_canarys_link(pilot, stage)
        link_of(stage).answers["canary"] = scenes.CANARY_WELL
        await pilot.press("C")
        await until(pilot, lambda: "✓ well" in words(pilot))
        await until(pilot, lambda: app_of(pilot).picture.proving is None)
        assert canaries(stage) == 2
