"""A read-only profile: every key and every palette entry changes nothing, and says why."""

from __future__ import annotations

from console.actions import ACTIONS, MAIN, PATCH, RECOVERY
from console.tui.palette import ActionCommands
from console.tui.screens.patch import PatchScreen
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, toasts, words

# the keys of a recovery's page aside: no read-only profile comes to it
REFUSED = [a for a in ACTIONS if a.acts and a.where != RECOVERY]
LOOKS = {"patch.status", "server.preflight", "dumps.show", "dumps.verify", "plan patch.revert", "plan patch.apply"}


async def test_keys() -> None:
    stage = Stage(scenes.answering, profile=scenes.READ_ONLY)
    async with on_stage(stage) as pilot:
        for told, action in enumerate(sorted(REFUSED, key=lambda action: action.where == PATCH), 1):
            if action.where == PATCH and not isinstance(pilot.app.screen, PatchScreen):
                await pilot.press("p")
            await pilot.press(action.key)
            assert toasts(pilot).count("profile 'kimi' is read-only") == told
        assert set(link_of(stage).asked) <= {"patch.status"}


async def test_every_key_of_the_main_screen() -> None:
    stage = Stage(scenes.answering, profile=scenes.READ_ONLY)
    async with on_stage(stage) as pilot:
        for action in ACTIONS:
            if action.where == MAIN:
                await pilot.press(action.key, "escape", "escape")
        assert set(link_of(stage).asked) <= LOOKS
        assert "read-only" in words(pilot)


async def test_every_palette_entry() -> None:
    stage = Stage(scenes.answering, profile=scenes.READ_ONLY)
    async with on_stage(stage) as pilot:
        app = app_of(pilot)
        entries = ActionCommands(app.screen)._entries()
        refused = [name for name, words_, _ in entries if words_.startswith("not now: profile 'kimi' is read-only")]
        assert refused == [f"{action.area}: {action.verb or action.label}" for action in REFUSED]
        for name, _, use in entries:
            if name != "screen: quit":
                use()
                await pilot.press("escape", "escape")
                assert name not in refused or "is read-only" in toasts(pilot)
        assert set(link_of(stage).asked) <= LOOKS
