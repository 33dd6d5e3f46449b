"""`R`: the server ended and started again, as it runs or as the profile says, and then proved as after any start."""

from __future__ import annotations

import dataclasses

import pytest
from textual.pilot import Pilot

from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.run import RunScreen
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, showing, until, words


async def asked(pilot: Pilot[None], title: str) -> str:
    """The words of the question with this title."""
    await showing(pilot, ConfirmScreen)
    await until(pilot, lambda: title in words(pilot))
    return words(pilot)


def ran(stage: Stage) -> list[str]:
    return [call for call in link_of(stage).asked if call.startswith("run")]


AS_IT_RUNS, BY_PROFILE = (plan.title for plan in (scenes.AS_IT_RUNS, scenes.BY_PROFILE))


async def test_both_ways_are_shown_and_the_chosen_one_runs() -> None:
    stage = Stage(scenes.restarting)
    async with on_stage(stage) as pilot:
        await pilot.press("R")
        said = await asked(pilot, AS_IT_RUNS)
        assert "--api-key •••" in said
        assert "! 4 running and 12 queued requests are lost." in said
        assert scenes.DIFFERS[0] in said
        assert "By profile" in said
        await pilot.press("right", "enter")
        said = await asked(pilot, BY_PROFILE)
        assert "NCCL_DEBUG=INFO" in said
        await pilot.press("right", "enter")
        await asked(pilot, AS_IT_RUNS)
        await pilot.press("right", "enter")
        await asked(pilot, BY_PROFILE)
        assert ran(stage) == []
        await pilot.press("right", "right", "enter")
        await showing(pilot, RunScreen)
        await until(pilot, lambda: "Started, loading." in words(pilot))
        assert ran(stage) == ["run server.restart.profile"]


@pytest.mark.parametrize("keys", [("enter",), ("escape",), ("right", "enter", "escape")])
async def test_cancelled_nothing_runs(keys: tuple[str, ...]) -> None:
    stage = Stage(scenes.restarting)
    async with on_stage(stage) as pilot:
        await pilot.press("R")
        await asked(pilot, AS_IT_RUNS)
        for key in keys:
            await pilot.press(key)
            if key == "enter" and len(keys) > 1:
                await asked(pilot, BY_PROFILE)
        await showing(pilot, MainScreen)
        await until(pilot, lambda: not app_of(pilot)._actor.running)
        assert ran(stage) == []


async def test_without_a_difference_there_is_nothing_to_choose_and_the_canary_follows() -> None:
    stage = Stage(scenes.restarting)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["plan server.restart"] = scenes.SAME
        await pilot.press("R")
        assert "By profile" not in await asked(pilot, AS_IT_RUNS)
        await pilot.press("right", "enter")
        await until(pilot, lambda: not app_of(pilot)._actor.running)
        assert ran(stage) == ["run server.restart"]
        await pilot.press("escape")
        for state in (scenes.LOADING, scenes.READY):
            link_of(stage).say(server=dataclasses.replace(state, pid=50001))
            await settled(pilot)
        await until(pilot, lambda: "canary" in link_of(stage).asked)
