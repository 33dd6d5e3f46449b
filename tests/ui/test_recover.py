"""`z`: who is in the way, confirmed, ended, looked at again; and what may not be ended is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Button, Input

from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.error import ErrorScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.recovery import RecoveryScreen
from console.tui.screens.run import RunScreen
from remote.wire.plan import Check, Outcome, StepResult, Verdict
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, showing, until, words

ORPHAN = ProcessInfo(53, 900, "sglang::scheduler_TP0", "root", "S", age=75.0, ours=True, why="by record", holds=("x",))
KERNEL = ProcessInfo(77, 901, "python3 -m ipykernel_launcher", "ann", "S", holds=("0.0.0.0:8000",))


def facts(*processes: ProcessInfo) -> PortFacts:
    return PortFacts(1.0, 8000, Phase.ORPHANS, "", processes, bind_problem="Address already in use", user="root")


async def test_from_key_to_second_look() -> None:
    stage = Stage(scenes.answering)
    asked: list[Any] = []

    def end(args: dict[str, Any]) -> Outcome:
        asked.append(args["basis"]["processes"])
        return Outcome("server.recover", True, "free", (Check("port", Verdict.OK, "it can be bound"),))

    async with on_stage(stage) as pilot:
        link_of(stage).answers |= {"recover.facts": facts(ORPHAN), "recover.end": end}
        link_of(stage).steps["recover.end"] = [StepResult("Ask them to end", True, "kill -TERM 53")]
        await pilot.press("z")
        await showing(pilot, ConfirmScreen)
        await pilot.pause()
        assert "pid 53 of root" in words(pilot)
        assert "$ kill -KILL 53" in words(pilot)
        await pilot.press("right", "enter")
        screen = await showing(pilot, RunScreen)
        await until(pilot, lambda: screen.run.ended is not None)
        assert screen.run.ok
        assert screen.run.summary == "Recovered: port 8000 is free."
        assert asked == [[[53, 900]]]


async def test_a_stranger_is_named_and_left_alone() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["recover.facts"] = facts(KERNEL)
        await pilot.press("z")
        screen = await showing(pilot, ErrorScreen)
        assert "pid 77 of ann" in screen.error.what
        assert "--including 77" in screen.error.remedy
        assert not [call for call in link_of(stage).asked if call.startswith("recover.end")]


async def not_enough(pilot: Pilot[None]) -> RecoveryScreen:
    """The ordinary plan, confirmed, has ended, and something is still held."""
    await pilot.press("z")
    await showing(pilot, ConfirmScreen)
    await pilot.press("right", "enter")
    screen = await showing(pilot, RecoveryScreen)
    await until(pilot, lambda: screen.run.ended is not None)
    await until(pilot, lambda: not app_of(pilot)._actor.running)
    return screen


async def confirming(pilot: Pilot[None], key: str) -> ConfirmScreen:
    await pilot.press(key)
    screen = await showing(pilot, ConfirmScreen)
    await until(pilot, lambda: isinstance(pilot.app.focused, Input))
    return screen


@pytest.mark.usefixtures("held")
async def test_the_last_resorts_are_offered_where_something_is_still_held() -> None:
    async with on_stage(Stage(scenes.answering)) as pilot:
        await not_enough(pilot)
        await until(pilot, lambda: "Last resort" in words(pilot))
        assert "P  end Pythons" in words(pilot)
        assert "R  restart" in words(pilot)
        await confirming(pilot, "R")
        assert "Type restart 129 to go ahead" in words(pilot)
        await pilot.press(*"restart", "space", *"129", "enter")
        screen = await showing(pilot, RecoveryScreen)
        await until(pilot, lambda: screen.run.ended is not None)
        assert screen.run.ok
        assert "Last resort" not in words(pilot)
        assert "P end Pythons" not in words(pilot)
        await pilot.press("escape")
        await showing(pilot, MainScreen)


@pytest.mark.usefixtures("held")
async def test_without_a_host_only_what_can_be_done_is_offered() -> None:
    async with on_stage(
        Stage(scenes.answering, profile=msgspec.structs.replace(scenes.PROFILE, proxmox=None))
    ) as pilot:
        await not_enough(pilot)
        await until(pilot, lambda: "P  end Pythons" in words(pilot))
        assert "R  restart" not in words(pilot)
        await pilot.press("R")
        assert isinstance(pilot.app.screen, RecoveryScreen)
        await confirming(pilot, "P")


async def test_after_a_good_end_they_are_no_keys() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers |= {"recover.facts": facts(ORPHAN), "recover.end": scenes.RECOVERED}
        await not_enough(pilot)
        for key in "PR":
            await pilot.press(key)
        assert isinstance(pilot.app.screen, RecoveryScreen)
        assert "Last resort" not in words(pilot)


WRONG = ["", "kill", "kill every pytho", "kill every pythonn", "Kill every python", " kill every python", "restart 129"]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("typed", WRONG)
async def test_another_word_goes_nowhere(typed: str) -> None:
    async with on_stage(Stage(scenes.answering)) as pilot:
        await not_enough(pilot)
        screen = await confirming(pilot, "P")
        await pilot.press(*("space" if letter == " " else letter for letter in typed), "enter")
        go = screen.query_one("#go", Button)
        assert go.disabled
        await pilot.click("#go")
        screen.post_message(Button.Pressed(go))
        await pilot.pause()
        assert pilot.app.screen is screen
        await pilot.press("escape")
        await showing(pilot, RecoveryScreen)


@pytest.mark.usefixtures("held")
async def test_the_word_is_typed_not_pasted() -> None:
    async with on_stage(Stage(scenes.answering)) as pilot:
        await not_enough(pilot)
        screen = await confirming(pilot, "P")
        box = screen.query_one(Input)
        box.post_message(Paste(scenes.END_PYTHONS.word))
        await pilot.pause()
        pilot.app.copy_to_clipboard(scenes.END_PYTHONS.word)
        await pilot.press("ctrl+v")
        assert (box.value, screen.query_one("#go", Button).disabled) == ("", True)
        await pilot.press(*"kill", "space", *"every", "space", *"python")
        assert not screen.query_one("#go", Button).disabled
        await pilot.press("backspace")
        assert screen.query_one("#go", Button).disabled
        await pilot.press("n", "tab", "right", "enter")
        again = await showing(pilot, RecoveryScreen)
        await until(pilot, lambda: again.run.ended is not None)
        assert again.run.planned == scenes.END_PYTHONS.steps
