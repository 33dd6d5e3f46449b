"""No key of ours is silent: where it does nothing it says why, in a line."""

from __future__ import annotations

import threading

import pytest

from console.actions import ACTIONS, ANYWHERE
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, ended, link_of, on_stage, settled, toasts, until, words

KEYS = sorted({action.key for action in ACTIONS if action.where != ANYWHERE})
PAGES: dict[str, tuple[str, ...]] = {
    "main": (),
    "patch": ("p",),
    "help": ("question_mark",),
    "log": ("l",),
    "request": ("enter",),
    "verify all": ("V",),
    "stopped": ("x", "right", "enter"),
    "recovery": ("z", "right", "enter"),
    "a question": ("x",),
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("held")
async def test_a_key_that_does_nothing_here_says_so(page: str) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        for key in PAGES[page]:
            await pilot.press(key)
            await settled(pilot)
            await ended(pilot)
        app, screen = app_of(pilot), pilot.app.screen
        idle = [key for key in KEYS if key not in screen.active_bindings]
        assert idle
        for key in idle:
            app.clear_notifications()
            await pilot.press(key)
            await until(pilot, lambda: len(app._notifications) == 1, f"{key} is silent on the page {page}")
            assert app.screen is screen


IDLE = {
    "a stop's end": ("x", "right", "enter", "enter"),
    "a recovery's end": ("z", "right", "enter", "enter"),
    "a preflight that is no gate": ("f", "enter"),
    "a request that is being verified": ("enter", "v", "v"),
    "the main screen": ("escape",),
    "a log that follows": ("l", "f"),
}


@pytest.mark.parametrize("page", IDLE)
@pytest.mark.usefixtures("held")
async def test_a_bound_key_that_finds_nothing_to_do_says_so(page: str) -> None:
    stage = Stage(scenes.answering)
    verified = threading.Event()
    async with on_stage(stage) as pilot:
        link_of(stage).answers["dumps.verify"] = lambda _: verified.wait(60)
        *way, key = IDLE[page]
        for before in way:
            await pilot.press(before)
            await settled(pilot)
            if before != "v":
                await ended(pilot)
        app, screen = app_of(pilot), pilot.app.screen
        app.clear_notifications()
        await pilot.press(key)
        await until(pilot, lambda: len(app._notifications) == 1, f"{key} is silent on {page}")
        assert app.screen is screen
    verified.set()  # not before: its page would still look at what came of it


async def test_a_key_is_read_only_only_where_all_it_does_is() -> None:
    async with on_stage(Stage(scenes.answering, profile=scenes.READ_ONLY)) as pilot:
        await pilot.press("l", "v")
        await until(pilot, lambda: "verify: on the main screen" in toasts(pilot), toasts(pilot))
        assert "read-only" not in toasts(pilot)
        await pilot.press("a")
        await until(pilot, lambda: "is read-only" in toasts(pilot), toasts(pilot))


WORDS = {
    ("p", "s"): "s: start: on the main screen (esc)",
    ("a",): "a: apply: on the patch page (p)",
    ("r",): "r: the link is not waiting to try again",
    ("question_mark", "v"): "v: revert: on the patch page (p); verify: on the main screen (esc)",
    ("l", "n"): "Nothing is looked for yet: / finds text.",
    ("x", "q"): "First answer this, or leave it with esc.",
}


@pytest.mark.parametrize("keys", WORDS, ids=" ".join)
async def test_it_says_where_the_key_does_something(keys: tuple[str, ...]) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        for key in keys:
            await pilot.press(key)
            await settled(pilot)
        await until(pilot, lambda: WORDS[keys] in toasts(pilot), toasts(pilot))


async def test_a_click_on_a_grey_key_says_why_it_is_grey() -> None:
    stage = Stage(scenes.ready, profile=scenes.READ_ONLY)
    async with on_stage(stage) as pilot:
        foot = words(pilot).splitlines()[-1]
        await pilot.click("KeyFooter", offset=(foot.index("s start"), 0))
        await until(pilot, lambda: "is read-only" in toasts(pilot))
