"""The log screen, help and the palette; keys, footer and help come from one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from textual.command import CommandPalette

from console.actions import ACTIONS, ANYWHERE, BY_ID, MAIN
from console.tui.screens.confirm import GO, ConfirmScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.host_key import HostKeyScreen
from console.tui.screens.log import LogScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.page import Dialog
from console.tui.widgets.log import LogView
from remote.wire.server import LogLines
from tests.ui import scenes
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, showing, until, words


def long_log(link: FakeLink) -> None:
    scenes.answering(link)
    link.say(log=LogLines(tuple(f"line {number}" for number in range(500)), scenes.LOG))


async def test_the_log_follows_pauses_and_counts() -> None:
    stage = Stage(long_log)
    async with on_stage(stage) as pilot:
        await pilot.press("l")
        view = (await showing(pilot, LogScreen)).query_one(LogView)
        await until(pilot, lambda: view.has_focus and "line 499" in words(pilot))
        assert "following" in words(pilot)
        await pilot.press("pageup")
        await until(pilot, lambda: not view.following)
        top = view.scroll_offset.y
        link_of(stage).say(log=LogLines(("new 1", "new 2"), scenes.LOG))
        await settled(pilot)
        assert "paused · +2 lines" in words(pilot)
        assert view.scroll_offset.y == top
        await pilot.press("f")
        await pilot.pause()
        assert "new 2" in words(pilot)
        assert "following" in words(pilot)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_the_log_stays_in_place_when_its_head_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    from console.tui import log_buffer

    stage = Stage(long_log)
    async with on_stage(stage) as pilot:
        await pilot.press("l")
        view = (await showing(pilot, LogScreen)).query_one(LogView)
        await until(pilot, lambda: view.has_focus and "line 499" in words(pilot))
        await pilot.press("pageup")
        await until(pilot, lambda: not view.following)
        first_line = view.log_lines.lines[view.scroll_offset.y]
        monkeypatch.setattr(log_buffer, "MOST_LINES", 300)
        monkeypatch.setattr(log_buffer, "SLACK", 0)
        link_of(stage).say(log=LogLines(("new",), scenes.LOG))
        await settled(pilot)
        assert view.log_lines.first > 0
        assert view.log_lines.lines[view.scroll_offset.y] == first_line


async def test_finding_in_the_log() -> None:
    async with on_stage(Stage(long_log)) as pilot:
        await pilot.press("l", "slash", *"LINE 49", "enter")
        view = (await showing(pilot, LogScreen)).query_one(LogView)
        lines = view.log_lines.lines

        def found() -> str:
            return lines[cast(int, view._found) - view.log_lines.first]

        assert found() == "line 499"
        await pilot.press("N")
        assert found() == "line 498"
        await pilot.press("n")
        assert found() == "line 499"
        await pilot.press(*"N" * 10)
        assert found() == "line 49"
        await pilot.press("escape")
        assert view.needle == ""
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_finding_goes_on_where_the_found_line_is_trimmed_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from console.tui import log_buffer

    stage = Stage(long_log)
    async with on_stage(stage) as pilot:
        await pilot.press("l", "slash", *"line 39", "enter")
        view = (await showing(pilot, LogScreen)).query_one(LogView)
        await until(pilot, lambda: view._found is not None)
        monkeypatch.setattr(log_buffer, "MOST_LINES", 10)
        monkeypatch.setattr(log_buffer, "SLACK", 0)
        link_of(stage).say(log=LogLines(("line 39 again",), scenes.LOG))
        await until(pilot, lambda: view.log_lines.first > cast(int, view._found))
        await pilot.press("n")
        await until(pilot, lambda: view._found == view.log_lines.end - 1)


async def test_log_text_can_be_selected_for_copying() -> None:
    from textual.geometry import Offset
    from textual.selection import Selection

    async with on_stage(Stage(scenes.ready)) as pilot:
        await pilot.press("l")
        view = (await showing(pilot, LogScreen)).query_one(LogView)
        text, _ = view.get_selection(Selection(Offset(1, 0), Offset(11, 0))) or ("", "")
        assert text == "2026-11-30"


async def test_help_has_every_key_and_says_why_some_are_grey() -> None:
    async with on_stage(Stage(scenes.answering, profile=scenes.READ_ONLY), size=(120, 100)) as pilot:
        await pilot.press("question_mark")
        await showing(pilot, HelpScreen)
        await pilot.pause()
        for action in ACTIONS:
            assert action.help in words(pilot)
            assert action.command in words(pilot)
        assert "not now: profile 'kimi' is read-only" in words(pilot)


async def test_keys_are_the_registrys() -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        bound = {active.binding.id: key for key, active in pilot.app.screen.active_bindings.items()}
        for action in ACTIONS:
            if action.where == MAIN and action.id != "link.retry":
                assert bound[action.id] == action.key


def test_no_key_is_taken_twice_on_a_screen() -> None:
    for place in {action.where for action in ACTIONS} - {ANYWHERE}:
        keys = [action.key for action in ACTIONS if action.where in (place, ANYWHERE)]
        assert len(keys) == len(set(keys)), place
    assert len(BY_ID) == len(ACTIONS)


async def test_the_palette_acts_as_the_key_does() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("ctrl+p")
        await showing(pilot, CommandPalette)
        await pilot.press(*"server: stop")
        await until(pilot, lambda: "hsconsole server stop" in words(pilot))
        await pilot.press("enter")
        await showing(pilot, ConfirmScreen)


async def test_the_footer_can_be_clicked() -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        footer = words(pilot).split("\n")[-1]
        await pilot.click(offset=(footer.index("l log"), 35))
        await showing(pilot, LogScreen)


async def test_q_leaves() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        await pilot.press("q")
    assert link_of(stage).closed.is_set()
    assert app_of(pilot).return_code == 0


ASKING: dict[str, tuple[Callable[[], Dialog[Any]], Any]] = {
    "plan": (lambda: ConfirmScreen(scenes.STOP, "ct129"), GO),
    "host key": (lambda: HostKeyScreen("ct129", "ssh-ed25519", "SHA256:abc"), True),
}


@pytest.mark.parametrize("asking", ASKING)
async def test_arrows_choose_in_every_question(asking: str) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        question, yes = ASKING[asking]
        answers: list[Any] = []
        pilot.app.push_screen(question(), answers.append)
        await pilot.pause()
        await pilot.press("right", "left", "right", "enter")
        await pilot.pause()
        assert answers == [yes]
