"""`C`: checks as they come, the verdict with what it found and tolerates, Esc, and the last one on the main screen."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from console.errors import NotAsked
from console.tui.screens.canary import CanaryScreen
from console.tui.screens.main import MainScreen
from remote.wire.dumps import Canary
from remote.wire.plan import StepResult, Verdict
from remote.wire.server import Judgement
from tests.ui import scenes
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, showing, toasts, until, words

ENDS = {
    "well": (scenes.CANARY_WELL, ("✓ well", "worst 3.6e-07, tolerance 3.8e-06", "✓  ranks")),
    "faulty": (
        scenes.CANARY_FAULTY,
        ("✗ faulty", "do NOT use", "✗  final against logprobs", "worst 1.7e+05", "→ `final` is not"),
    ),
    "unknown": (scenes.CANARY_UNKNOWN, ("– unknown", "–  final against logprobs", "the weights are random")),
}


@pytest.mark.parametrize("end", ENDS)
async def test_from_key_to_verdict(end: str) -> None:
    found, told = ENDS[end]
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["canary"] = found
        await pilot.press("C")
        await showing(pilot, CanaryScreen)
        await until(pilot, lambda: told[0] in words(pilot))
        for part in told:
            assert part in words(pilot)
        kept = "left to be looked at: req_1287, req_1288" in words(pilot)
        assert kept == (found is not scenes.CANARY_WELL)
        await pilot.press("c")
        assert told[-1] in pilot.app.clipboard
        await pilot.press("escape")
        await showing(pilot, MainScreen)


def waiting(stage: Stage) -> threading.Event:
    """The canary goes on until it is cancelled, or until this is set."""
    go = threading.Event()

    def canary(args: dict[str, Any]) -> Canary:
        while not go.wait(0.01):
            if link_of(stage).cancelled:
                return scenes.CANARY_CANCELLED
        return scenes.CANARY_WELL

    link_of(stage).answers["canary"] = canary
    link_of(stage).steps["canary"] = [
        scenes.CANARY_STEPS[0],
        StepResult("prefix", False, "numpy is missing in the profile's Python"),
    ]
    return go


async def test_escape_cancels_and_then_leaves() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        waiting(stage)
        await pilot.press("C")
        await until(pilot, lambda: "✓  prompt" in words(pilot))
        assert "esc cancels" in words(pilot)
        assert "!  prefix" in words(pilot), "what is not well may be unknown: the verdict says so at the end"
        await pilot.press("escape")
        await until(pilot, lambda: "cancelled: it says nothing" in words(pilot))
        assert link_of(stage).cancelled == ["canary"]
        assert "–  cancelled" in words(pilot)
        assert "left to be looked at" not in words(pilot)
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        await until(pilot, lambda: not app_of(pilot)._actor.running)


async def test_one_that_does_not_end_can_be_left() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        go = waiting(stage)
        link_of(stage).cancelled = _Deaf()
        await pilot.press("C")
        await until(pilot, lambda: "✓  prompt" in words(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "cancelling" in words(pilot))
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        await pilot.press("t")
        assert "'canary' is running" in toasts(pilot)
        go.set()
        await until(pilot, lambda: not app_of(pilot)._actor.running)


class _Deaf(list[str]):
    """A line over which no cancel comes."""

    def append(self, _: str) -> None:
        pass


async def test_a_lost_link_is_told_beside_the_steps() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["canary"] = NotAsked("the line was cut", "It goes on trying.")
        await pilot.press("C")
        await until(pilot, lambda: "the line was cut" in words(pilot))
        assert "✓  ranks" in words(pilot)


NOW = scenes.NOW
PANEL = {
    "never": (None, "no canary since this start: C"),
    "well": (Judgement(Verdict.OK, NOW - 200), "canary well, 3 min ago"),
    "faulty": (Judgement(Verdict.BAD, NOW), "canary faulty, just now"),
    "unknown": (Judgement(Verdict.UNKNOWN, NOW - 7300), "canary unknown, 2 h ago"),
    "in doubt": (Judgement(Verdict.WARN, NOW - 5), "canary in doubt, 5 s ago"),
}


@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=str)
@pytest.mark.parametrize("judged", PANEL)
async def test_the_last_one_is_on_the_main_screen_whole(judged: str, size: tuple[int, int]) -> None:
    judgement, told = PANEL[judged]

    def play(link: FakeLink) -> None:
        scenes.ready(link)
        link.say(server=dataclasses.replace(scenes.READY, canary=judgement))

    async with on_stage(Stage(play), size=size) as pilot:
        assert told in words(pilot)


async def test_its_age_stands_still_while_the_link_is_lost() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link_of(stage).say(server=dataclasses.replace(scenes.READY, canary=Judgement(Verdict.OK, NOW - 20)))
        await settled(pilot)
        assert "canary well, 20 s ago" in words(pilot)
        stage.clock.now += 30
        app_of(pilot).look()
        await pilot.pause()
        assert "canary well, 50 s ago" in words(pilot)


async def test_a_server_that_does_not_run_has_no_canary() -> None:
    async with on_stage(Stage(scenes.stopped)) as pilot:
        assert "no canary" not in words(pilot)
