"""`v` and `V`: one request on its page, all of them on one of their own, worst first, and any number of them."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from typing import Any

import pytest
from textual.pilot import Pilot

from console.errors import LinkLost
from console.tui.screens.main import MainScreen
from console.tui.screens.request import RequestScreen
from console.tui.screens.verify import VerifyScreen
from console.tui.verification import MOST, WORST_FIRST, Verification
from console.tui.widgets.verified import VerifiedTable, found
from remote.wire.dumps import Verified, VerifyProgress, VerifyResult, VerifySummary
from remote.wire.plan import Check
from tests.living import PATIENCE
from tests.ui import scenes
from tests.ui.scenes import Stage, verified
from tests.ui.stagehand import link_of, on_stage, showing, toasts, until, words


def taken(*results: VerifyResult, done: int = 0, total: int = 0) -> Verification:
    run = Verification(None, 1000.0)
    run.put(VerifyProgress(results, done or len(results), total or len(results)))
    assert run.take(1001.0)
    return run


class TestVerification:
    def test_the_worst_first_and_in_the_order_they_came(self) -> None:
        mixed = [verified(number, verdict) for number, verdict in enumerate([*reversed(WORST_FIRST), *WORST_FIRST])]
        run = taken(*mixed)
        assert [run.at(index).verdict for index in range(len(run))] == [v for v in WORST_FIRST for _ in "12"]
        assert [run.index_of(run.number_at(index)) for index in range(len(run))] == list(range(len(run)))
        assert run.index_of(99) is None
        with pytest.raises(IndexError):
            run.at(len(run))

    def test_of_each_kind_the_first_are_kept_and_all_counted(self) -> None:
        run = taken(*(verified(number, Verified.BAD) for number in range(MOST + 7)), verified(5000))
        assert (len(run), run.unlisted) == (MOST + 1, 7)
        assert run.counts == {Verified.BAD: MOST + 7, Verified.OK: 1}
        assert run.at(MOST).number == 5000

    def test_rates_are_of_the_last_seconds(self) -> None:
        run = taken(*(verified(number) for number in range(100)), total=1000)
        assert run.rates() == (100.0, 100 * scenes.MB_47)
        for second in range(2, 20):
            run.put(VerifyProgress((verified(second),), 100 + second, 1000))
            run.take(1000.0 + second)
        rates = run.rates()
        assert rates is not None
        assert rates[0] == pytest.approx(1.0)

    def test_a_hundred_thousand_cost_what_they_are(self) -> None:
        """Each event costs what is in it, whatever came before."""
        run, results = Verification(None, 0.0), [verified(number) for number in range(100_000)]
        costs = []
        for first in range(0, 100_000, 10_000):
            began = time.process_time()
            for at in range(first, first + 10_000, 100):
                run.put(VerifyProgress(tuple(results[at : at + 100]), at + 100, 100_000))
                run.take(at / 1000)
            costs.append(time.process_time() - began)
        assert (run.done, run.unlisted) == (100_000, 100_000 - MOST)
        assert sum(costs) < 30
        assert min(costs[-3:]) < 10 * max(min(costs[:3]), 0.001)


async def all_told(pilot: Pilot[None]) -> VerifyScreen:
    await pilot.press("V")
    screen = await showing(pilot, VerifyScreen)
    await until(pilot, lambda: screen.run.ended is not None)
    return screen


async def test_all_from_key_to_end_and_into_a_bad_one() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await all_told(pilot)
        shown = words(pilot)
        for part in (
            "✗ not all well",
            "1,281 ok · 1 warn · 1 unverified · 1 error · 2 bad",
            "281 counted, not listed",
            "content, 60.4 GB in 4.3 s · norms: 64 dumps, of this folder",
            "finite: aux_2.pt: NaN in row 7; norms: aux_2: the median is 41 spreads off",
        ):
            assert part in shown
        listed = [line.split()[0] for line in shown.split("\n") if " ✗ bad" in line or " ✗ error" in line]
        assert listed == ["404", "1282", "700"]
        await pilot.press("down", "enter")
        screen = await showing(pilot, RequestScreen)
        assert screen.number == 1282
        await pilot.press("escape")
        await showing(pilot, VerifyScreen)
        await pilot.press("c")
        assert "req_404\tbad\tfinite: aux_2.pt: NaN in row 7" in pilot.app.clipboard
        await pilot.press("escape")
        await showing(pilot, MainScreen)


async def test_one_is_verified_on_its_page() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("down", "v")
        screen = await showing(pilot, RequestScreen)
        assert screen.number == 1285
        await until(pilot, lambda: "✓ ok" in words(pilot))
        assert "captured_at_layers" in words(pilot)
        await pilot.press("v")
        await until(pilot, lambda: link_of(stage).asked.count("dumps.verify") == 2)


async def test_what_is_wrong_with_one_is_told_with_its_remedy() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("down", "down", "down", "down", "enter")
        screen = await showing(pilot, RequestScreen)
        assert screen.number == 1282
        await pilot.press("v")
        await until(pilot, lambda: "✗ bad" in words(pilot))
        assert "the median is 41 spreads off" in words(pilot)
        assert "→ Check the weights, the dtype and the rope settings." in words(pilot)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=str)
async def test_what_its_end_says_beside_the_counts(size: tuple[int, int]) -> None:
    stage = Stage(scenes.answering)
    ended = dataclasses.replace(
        scenes.summed((Verified.OK, 1286)),
        superseded=tuple(range(3, 1200)),
        longer=(7, 9),
        note="audit.jsonl can't be written: full",
    )
    async with on_stage(stage, size=size) as pilot:
        link_of(stage).answers["dumps.verify"] = ended
        await all_told(pilot)
        shown = " ".join(words(pilot).split())
        assert "! 1,197 superseded, because the request was sent again: req_3, req_4, " in shown
        assert "! 2 longer than an older one of the same rid, so retracted: req_7, req_9" in shown
        assert "req_12 and 1,187 more" in shown
        assert "! audit.jsonl can't be written: full" in shown
        await pilot.press("c")
        assert "1,197 superseded" in pilot.app.clipboard


async def test_without_a_request_there_is_nothing_to_verify() -> None:
    async with on_stage(Stage(scenes.stopped)) as pilot:
        await pilot.press("v")
        assert "no request to verify" in toasts(pilot)


async def test_an_empty_folder() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).steps["dumps.verify"] = []
        link_of(stage).answers["dumps.verify"] = scenes.summed()
        await all_told(pilot)
        assert "no request is in the folder" in words(pilot)
        assert "all well" not in words(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "no request to open" in toasts(pilot))


@pytest.mark.parametrize("key", ["v", "V"])
async def test_a_link_that_is_lost_meanwhile(key: str) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["dumps.verify"] = LinkLost("the line was cut", "It goes on trying.")
        await pilot.press(key)
        await until(pilot, lambda: "the line was cut" in words(pilot))


def endless(stage: Stage, results: tuple[VerifyResult, ...] = ()) -> None:
    """A verification that goes on until it is cancelled."""

    def verify(args: dict[str, Any]) -> VerifySummary:
        while not link_of(stage).cancelled:
            time.sleep(0.005)
        return scenes.summed((Verified.OK, len(results)), stopped=True)

    link_of(stage).answers["dumps.verify"] = verify
    link_of(stage).steps["dumps.verify"] = [VerifyProgress(results, len(results), 1286)] if results else []


@pytest.mark.parametrize("results", [(), tuple(map(verified, range(1, 41)))], ids=["while it learns", "midway"])
async def test_escape_cancels_all_and_then_leaves(results: tuple[VerifyResult, ...]) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        endless(stage, results)
        await pilot.press("V")
        await until(pilot, lambda: ("40 of 1,286" if results else "learning what is usual") in words(pilot))
        assert "esc cancels" in words(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: "! cancelled after" in words(pilot))
        assert link_of(stage).cancelled == ["dumps.verify"]
        await pilot.press("escape")
        await showing(pilot, MainScreen)


async def test_escape_cancels_one_and_then_leaves() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        endless(stage)
        await pilot.press("v")
        await until(pilot, lambda: "looking at every number" in words(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "! cancelled" in words(pilot))
        assert link_of(stage).cancelled == ["dumps.verify"]
        await pilot.press("escape")
        await showing(pilot, MainScreen)


async def test_leaving_the_screen_ends_it_too() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        endless(stage)
        await pilot.press("V")
        await showing(pilot, VerifyScreen)
        await pilot.press("q")
    link = link_of(stage)
    deadline = time.monotonic() + PATIENCE
    while not link.cancelled and time.monotonic() < deadline:
        time.sleep(0.01)
    assert link.cancelled == ["dumps.verify"]


async def test_a_hundred_thousand_leave_the_keys_alive() -> None:
    """As many results as an agent tells, every tenth of them bad; meanwhile a key is answered at once."""
    stage, told, go = Stage(scenes.answering), threading.Event(), threading.Event()
    kinds = (Verified.BAD, *(Verified.OK,) * 9)
    every = tuple(
        verified(number, kinds[number % 10], *([scenes.NAN] * (not number % 10))) for number in range(100_000)
    )

    def steps(args: dict[str, Any]) -> list[VerifyProgress]:
        return [VerifyProgress(every[at : at + 150], at + 150, 100_000) for at in range(0, 100_000, 150)]

    def verify(args: dict[str, Any]) -> VerifySummary:
        told.set()
        go.wait(PATIENCE)
        return scenes.summed((Verified.BAD, 10_000), (Verified.OK, 90_000))

    async with on_stage(stage) as pilot:
        link_of(stage).steps["dumps.verify"] = steps
        link_of(stage).answers["dumps.verify"] = verify
        await pilot.press("V")
        screen = await showing(pilot, VerifyScreen)
        table, slowest = screen.query_one(VerifiedTable), 0.0
        while not told.is_set():
            began = time.monotonic()
            table.action_move(1)
            await asyncio.sleep(0)
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.01)
        go.set()
        await until(pilot, lambda: screen.run.ended is not None)
        assert slowest < 10.0  # on a busy machine; a screen that waits for all of them takes many seconds
        assert "10,000 bad" in words(pilot)
        assert len(screen.run) == 2 * MOST


async def test_hostile_words_of_a_check_are_harmless() -> None:
    stage = Stage(scenes.answering)
    bad = verified(7, Verified.BAD, Check(scenes.HOSTILE, scenes.BAD, scenes.HOSTILE, scenes.HOSTILE))
    async with on_stage(stage) as pilot:
        link_of(stage).steps["dumps.verify"] = [VerifyProgress((bad,), 1, 1)]
        link_of(stage).answers["dumps.verify"] = scenes.summed((Verified.BAD, 1))
        await all_told(pilot)
        assert "read [/dev/shm] failed [/foo] red" in words(pilot)
        await pilot.press("c")
        assert "\x1b" not in pilot.app.clipboard
    assert "\x1b" in found(bad)
