"""A page whose worker comes back while it is taken down has nothing to show, and ends nothing."""

from __future__ import annotations

import pytest

from console.tui.screens.page import Page
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import on_stage, until


@pytest.mark.parametrize("key", ["", "enter", "V", "p", "l", "f", "t", "C", "question_mark"])
async def test_no_page_minds(key: str) -> None:
    async with on_stage(Stage(scenes.answering)) as pilot:
        main = page = pilot.app.screen
        if key:
            await pilot.press(key)
            await until(pilot, lambda: pilot.app.screen is not main)
            page = pilot.app.screen
        assert isinstance(page, Page)
        await page.remove_children()
        page.look()
