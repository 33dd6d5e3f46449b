"""The main screen by hand: selection, filter, opening, resizing, loads and bursts."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console.demo import tour
from console.tui.screens.main import MainScreen
from console.tui.screens.request import RequestScreen
from console.tui.widgets.dumps import DumpTable
from remote.wire.dumps import DumpCounts, DumpsChange
from remote.wire.server import LogLines
from tests.ui import scenes
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, showing, toasts, until, words


def table(pilot: Pilot[None]) -> DumpTable:
    return pilot.app.screen.query_one(DumpTable)


def newer(first: int, count: int = 1) -> DumpsChange:
    return DumpsChange(scenes.NOW, False, scenes.rows(count, first), (), DumpCounts(first + count))


async def test_values_are_shown() -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        shown = words(pilot)
        for part in (
            "kimi",
            "root@ct129",
            "on pve1",
            "live, 12 ms",
            "v3",
            "✓ loaded",
            "● ready 2:14:07",
            "sglang 0.5.9",
        ):
            assert part in shown
        for part in (
            "RTX PRO 6000",
            "83.1/95.6 GiB",
            "252 of 504 GiB",
            "prefill 7.3 k tok/s",
            "running 4",
            "queued 12",
        ):
            assert part in shown
        for part in (
            "995 complete",
            "286 older not looked at",
            "2 writing",
            "3 bad",
            "418 MB/s",
            "s-001286",
            "aux_2.pt: NaN in row 7",
            "fired up",
        ):
            assert part in shown


async def test_load_counts_down() -> None:
    stage = Stage(scenes.loading)
    async with on_stage(stage) as pilot:
        assert "loading shards 55/163   34 %" in words(pilot)
        assert "4:10 left" in words(pilot)
        stage.clock.now += 10
        app_of(pilot).look()
        await pilot.pause()
        assert "4:00 left" in words(pilot)
        assert "loading 2:22" in words(pilot)


async def test_newer_requests_come_on_top_and_the_selected_one_stays_under_the_eye() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        dumps = table(pilot)
        assert dumps.number == 1286
        await pilot.press("down", "down", "down")
        assert dumps.number == 1283
        row = next(y for y, text in enumerate(words(pilot).split("\n")) if " 1283 " in text)
        link_of(stage).say(dumps=newer(1287, 40))
        await settled(pilot)
        assert dumps.number == 1283
        assert " 1283 " in words(pilot).split("\n")[row]
        await pilot.press("home")
        assert dumps.number == 1326
        link_of(stage).say(dumps=newer(1327))
        await settled(pilot)
        assert dumps.number == 1327


async def test_the_selected_request_goes_away() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        await pilot.press("down", "down")
        link_of(stage).say(dumps=DumpsChange(scenes.NOW, False, (), (1284,), DumpCounts(1280)))
        await settled(pilot)
        assert table(pilot).number == 1283


async def test_moving() -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        for keys, number in (
            (("end",), 1),
            (("up",), 2),
            (("home",), 1286),
            (("up",), 1286),
            (("j", "j", "k"), 1285),
            (("g", "pagedown"), 1286 - 12),
            (("pageup",), 1286),
        ):
            await pilot.press(*keys)
            assert table(pilot).number == number
            assert f" {number} " in words(pilot)


async def test_filter_and_back() -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        await pilot.press("slash", *"corrupt")
        assert "1 match 'corrupt'" in words(pilot)
        assert table(pilot).number == 1282
        await pilot.press("enter")
        assert table(pilot).has_focus
        await pilot.press("escape")
        assert len(table(pilot).dumps) == 1286
        assert not pilot.app.screen.query_one("#filter").display


async def test_a_superseded_request_says_by_which_and_is_found_by_that() -> None:  # D15
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        again = dataclasses.replace(scenes.rows(1, 1281)[0], superseded_by=1284)
        link_of(stage).say(dumps=DumpsChange(scenes.NOW, False, (again,), (), DumpCounts(1286)))
        await settled(pilot)
        await pilot.press("slash", *"superseded")
        assert table(pilot).number == 1281
        assert "superseded by req_1284" in words(pilot)


async def test_keys_typed_into_the_filter_are_text() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("slash", "x", "s", "q", "l")
        assert isinstance(pilot.app.screen, MainScreen)
        assert pilot.app.screen.query_one("#filter", Input).value == "xsql"
        assert not [call for call in link_of(stage).asked if call.startswith("plan")]


async def test_enter_opens_the_selected_request_and_escape_comes_back() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("down", "enter")
        screen = cast(RequestScreen, await showing(pilot, RequestScreen))
        assert screen.number == 1285
        await until(pilot, lambda: "final.pt holds 71,680 bytes of 143,360" in words(pilot))
        assert "captured_at_layers" in words(pilot)
        await pilot.press("c")
        assert "NaN in row 7" in pilot.app.clipboard
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)
        assert table(pilot).number == 1285


async def test_a_double_click_opens_too() -> None:
    async with on_stage(Stage(scenes.answering)) as pilot:
        await pilot.click(DumpTable, offset=(10, 3))
        assert table(pilot).number == 1284
        await pilot.click(DumpTable, offset=(10, 3), times=2)
        await showing(pilot, RequestScreen)


async def test_a_request_that_is_gone() -> None:
    from remote.wire.dumps import DumpDetail, DumpState

    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        said = "req_1286 is not there: taken away since, or never written"
        gone = dataclasses.replace(scenes.rows(1)[0], state=DumpState.GONE, note=said)
        link_of(stage).answers["dumps.show"] = DumpDetail(gone, "/dev/shm/sglang_hs/req_1286")
        await pilot.press("enter")
        await until(pilot, lambda: said in words(pilot))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=str)
async def test_that_a_consumer_took_all_is_not_that_there_were_none(size: tuple[int, int]) -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage, size=size) as pilot:
        link_of(stage).say(dumps=DumpsChange(scenes.NOW, True, (), (), DumpCounts()))
        await settled(pilot)
        assert "no requests yet: t sends a test request" in words(pilot)
        assert "0 complete" in words(pilot)
        link_of(stage).say(dumps=DumpsChange(scenes.NOW, False, (), (), DumpCounts(given=37_312)))
        await settled(pilot)
        assert "none is here now: 37,312 were dumped so far, and taken away" in words(pilot)
        assert "none here now" in words(pilot)
        assert "no requests yet" not in words(pilot)


async def test_a_folder_that_can_t_be_listed_has_no_counts() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        gone = DumpsChange(scenes.NOW, True, (), (), DumpCounts(), "/dev/shm/sglang_hs may not be read by this user")
        link_of(stage).say(dumps=gone)
        await settled(pilot)
        assert "may not be read by this user" in words(pilot)
        assert "0 complete" not in words(pilot)


async def test_enter_without_requests_says_so() -> None:
    async with on_stage(Stage(scenes.stopped)) as pilot:
        await pilot.press("enter")
        assert "no request" in toasts(pilot)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
async def test_the_demo_begins_with_nothing_cut(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/home/operator/hsconsole/.venv/bin/hsconsole", "demo"])
    monkeypatch.setattr(shutil, "which", lambda program: None)
    typed = tour.command(Path("/home/operator/.cache/hsconsole/stage/config"))
    hint = f"{tour.FIRST_STEPS}\nIn another terminal: {typed}"
    stage = Stage(scenes.stopped_demo, profile=scenes.DEMO, hint=hint)
    async with on_stage(stage, size=size) as pilot:
        shown = "".join(words(pilot).split())
        assert "".join(hint.split()) in shown
        assert "".join(app_of(pilot).picture.dumps.problem.split()) in shown
        assert "none needed: SGLang computes on the CPU" in words(pilot)
        assert pilot.app.screen.max_scroll_y == 0


@pytest.mark.parametrize("play", [scenes.left_over, scenes.orphans, scenes.no_gpu, scenes.stopped])
async def test_a_low_screen_is_not_scrolled(play: Callable[[FakeLink], None]) -> None:
    async with on_stage(Stage(play), size=(80, 24)) as pilot:
        main = app_of(pilot).screen_stack[0]
        assert (main.max_scroll_y, main.show_vertical_scrollbar) == (0, False)
        assert table(pilot).size.height >= 3, "dumps are seen"


async def test_the_hint_goes_with_escape() -> None:
    async with on_stage(Stage(scenes.stopped, hint="First: p then a")) as pilot:
        assert "First: p then a" in words(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: "First: p then a" not in words(pilot))


@pytest.mark.parametrize("size", [(40, 10), (20, 5), (300, 80)])
async def test_any_size(size: tuple[int, int]) -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        await pilot.resize_terminal(*size)
        await settled(pilot)
        assert "kimi" in words(pilot)


async def test_a_burst_leaves_the_keys_alive() -> None:
    """10,000 changes and 10,000 log lines from threads; meanwhile a key is answered at once."""
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link = link_of(stage)
        link.say(dumps=DumpsChange(scenes.NOW, True, scenes.rows(10_000), (), DumpCounts(10_000)))
        await settled(pilot)

        def burst() -> None:
            for number in range(10_001, 20_001):
                link.say(dumps=newer(number), log=LogLines((f"line {number}",), scenes.LOG))

        storm = asyncio.create_task(asyncio.to_thread(burst))
        slowest = 0.0
        while not storm.done():
            began = time.monotonic()
            table(pilot).action_move(1)
            await asyncio.sleep(0)
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.01)
        await settled(pilot)
        assert slowest < 5.0  # on a busy machine; a screen that waits for the storm takes many seconds
        assert len(table(pilot).dumps) == 20_000
        assert app_of(pilot).picture.log.lines[-1] == "line 20000"


async def test_at_rest_nothing_is_drawn() -> None:
    async with on_stage(Stage(scenes.ready)) as pilot:
        began = time.process_time()
        for _ in range(20):
            app_of(pilot)._take()
        await pilot.pause()
        assert (time.process_time() - began) / 20 < 0.5, "a drawn screen takes many times what nothing does"
