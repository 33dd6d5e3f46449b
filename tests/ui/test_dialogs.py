"""Boxes over the screen: whatever they say, what answers them is seen."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from console.errors import ServerError
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.error import ErrorScreen
from console.tui.screens.page import Dialog
from remote.wire.plan import Plan, Step
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import on_stage, until, words


@pytest.mark.parametrize("size", [(80, 24), (60, 18), (40, 14)], ids=str)
@pytest.mark.parametrize("asking", ["plan with a word", "plan", "error"])
async def test_buttons_are_seen_however_long_the_text_is(asking: str, size: tuple[int, int]) -> None:
    steps = tuple(Step(f"step {number} of many", f"kill -KILL {number}") for number in range(40))
    plan = Plan("server.recover", "A plan as long as they get", True, steps, losses=("All.",), word="restart 129")
    screens: dict[str, Dialog[Any]] = {
        "plan with a word": ConfirmScreen(plan, "ct129"),
        "plan": ConfirmScreen(dataclasses.replace(plan, word=""), "ct129"),
        "error": ErrorScreen(ServerError("\n".join(f"line {number}" for number in range(60)), "Look there.")),
    }
    async with on_stage(Stage(scenes.ready), size=size) as pilot:
        pilot.app.push_screen(screens[asking])
        last = "Close" if asking == "error" else "Cancel"
        await until(pilot, lambda: last in words(pilot))
        assert ("Type restart" in words(pilot)) == (asking == "plan with a word")
        ends = {
            "plan": ("step 0 of", "! All."),
            "plan with a word": ("! All.", "step 39 of"),
            "error": ("line 0", "Look"),
        }
        first, final = ends[asking]
        assert first in words(pilot)
        await pilot.press(*["pagedown"] * 12)
        await until(pilot, lambda: final in words(pilot))
        assert last in words(pilot)
