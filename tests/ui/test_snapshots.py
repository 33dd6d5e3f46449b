"""Pictures of the main states at three sizes. Each was looked at before it was accepted."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from console.cancel import Cancel
from console.demo.tour import FIRST_STEPS
from console.link import LinkPhase
from console.tui.act import canary_run
from console.tui.app import HsConsoleApp
from console.tui.screens.host_key import HostKeyScreen
from console.tui.screens.verify import VerifyScreen
from console.tui.themes import LIGHT
from tests.ui import scenes
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, ended, link_of, settled, showing, until

SEEN_BY = "HSCONSOLE_CONFIG_DIR=~/.cache/hsconsole/stage/config ~/hsconsole/.venv/bin/hsconsole status"
SIZES = ((80, 24), (120, 36), (200, 50))
Compare = Callable[..., bool]
Before = Callable[[Pilot[None]], Awaitable[None]]


def fill_history(app: HsConsoleApp) -> None:
    """What a minute of watching leaves: a fill rate and a sparkline for each GPU."""
    for used in (70, 96, 91, 97, 95, 88, 97, 96, 40, 97, 99):
        snapshot = scenes.gpus(8)
        now = tuple(dataclasses.replace(gpu, utilization=max(used - 3 * gpu.index, 0)) for gpu in snapshot.gpus)
        app.picture.see(dataclasses.replace(snapshot, gpus=now))
    app.picture.clock.now += 10  # type: ignore[attr-defined]
    used = scenes.SHM.used + 1_150_000_000
    app.picture.see(dataclasses.replace(scenes.SHM, used=used, filling=115e6, emptying=0.0))


async def _ready(pilot: Pilot[None], stage: Stage) -> None:
    fill_history(app_of(pilot))


async def _lost(pilot: Pilot[None], stage: Stage) -> None:
    stage.clock.now += 23
    retry = stage.clock.now + 3
    link_of(stage).be(LinkPhase.LOST, "nothing came for 15 s", retry_at=retry, clock_offset=0.0)


async def _stale(pilot: Pilot[None], stage: Stage) -> None:
    stage.clock.now += 7
    link_of(stage).be(LinkPhase.STALE, "silent for 7 s")


async def _proving(pilot: Pilot[None], stage: Stage) -> None:
    app = app_of(pilot)
    app.picture.proving = canary_run(app, Cancel())
    stage.clock.now += 42


async def _as_it_is(pilot: Pilot[None], stage: Stage) -> None:
    pass


STATES: dict[str, tuple[Callable[[FakeLink], None], dict[str, Any], Callable[..., Awaitable[None]]]] = {
    "connecting": (scenes.connecting, {}, _as_it_is),
    "stopped_demo": (
        scenes.stopped_demo,
        {"profile": scenes.DEMO, "hint": f"{FIRST_STEPS}\nIn another terminal: {SEEN_BY}"},
        _as_it_is,
    ),
    "loading": (scenes.loading, {}, _as_it_is),
    "ready": (scenes.ready, {}, _ready),
    "proving": (scenes.ready, {}, _proving),
    "stale": (scenes.ready, {}, _stale),
    "lost": (scenes.ready, {}, _lost),
    "refused": (scenes.refused, {}, _as_it_is),
    "no_gpu": (scenes.no_gpu, {"profile": scenes.DEMO}, _as_it_is),
    "one_gpu_lost": (scenes.one_lost_gpu, {}, _as_it_is),
    "orphans_read_only": (scenes.orphans, {"profile": scenes.READ_ONLY}, _as_it_is),
    "left_over": (scenes.left_over, {}, _as_it_is),
    "hostile": (scenes.hostile, {}, _as_it_is),
}


WIDE_TOO = ("connecting", "loading", "ready", "lost", "refused", "one_gpu_lost")


@pytest.mark.parametrize(
    ("state", "size"),
    [(state, size) for state in STATES for size in SIZES if size[0] < 200 or state in WIDE_TOO],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)
def test_main_screen(snap_compare: Compare, state: str, size: tuple[int, int]) -> None:
    play, settings, then = STATES[state]
    stage = Stage(play, **settings)

    async def before(pilot: Pilot[None]) -> None:
        await settled(pilot)
        await then(pilot, stage)
        await settled(pilot)

    assert snap_compare(stage.app(), terminal_size=size, run_before=before)


PAGES: dict[str, tuple[Callable[[FakeLink], None], tuple[str, ...]]] = {
    "patch": (scenes.answering, ("p",)),
    "diff": (scenes.answering, ("p", "d")),
    "help": (scenes.answering, ("question_mark",)),
    "log": (scenes.answering, ("l",)),
    "preflight": (scenes.answering, ("f",)),
    "preflight_gate": (scenes.blocked, ("s",)),
    "confirm_start": (scenes.answering, ("s",)),
    "confirm_stop": (scenes.answering, ("x",)),
    "confirm_restart": (scenes.restarting, ("R", "right", "enter", "right")),
    "confirm_apply": (scenes.answering, ("p", "a")),
    "stopped": (scenes.answering, ("x", "right", "enter")),
    "confirm_clean": (scenes.left_over, ("m",)),
    "cleaned": (scenes.left_over, ("m", "right", "enter")),
    "test_request": (scenes.answering, ("t",)),
    "request": (scenes.answering, ("enter",)),
    "request_verified": (scenes.answering, ("down", "down", "down", "down", "v")),
    "verify_all": (scenes.answering, ("V", "down")),
    "canary": (scenes.answering, ("C",)),
    "canary_faulty": (scenes.faulty_canary, ("C",)),
    "canary_unknown": (scenes.unknown_canary, ("C",)),
    "recovery_not_enough": (scenes.answering, ("z", "right", "enter")),
    "last_resort": (scenes.answering, ("z", "right", "enter", "R", *"restart", "space", *"129")),
    "hostile_patch": (scenes.hostile, ("p",)),
}


NARROW_TOO = (
    "confirm_start",
    "confirm_restart",
    "request",
    "stopped",
    "verify_all",
    "canary",
    "canary_faulty",
    "recovery_not_enough",
    "last_resort",
)
LIGHT_TOO = ("verify_all", "canary_faulty", "last_resort")


@pytest.mark.parametrize(
    ("page", "size"),
    [*((page, (120, 36)) for page in PAGES), *((page, (80, 24)) for page in NARROW_TOO)],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)
@pytest.mark.usefixtures("held")
def test_page(snap_compare: Compare, page: str, size: tuple[int, int]) -> None:
    play, keys = PAGES[page]
    assert snap_compare(Stage(play).app(), terminal_size=size, run_before=pressed(*keys))


@pytest.mark.parametrize("page", LIGHT_TOO)
@pytest.mark.usefixtures("held")
def test_light_page(snap_compare: Compare, page: str) -> None:
    play, keys = PAGES[page]
    before = pressed(*keys, theme=LIGHT.name)
    assert snap_compare(Stage(play).app(), terminal_size=(120, 36), run_before=before)


def pressed(*keys: str, theme: str = "") -> Before:
    async def before(pilot: Pilot[None]) -> None:
        pilot.app.theme = theme or pilot.app.theme
        await settled(pilot)
        for key in keys:
            await pilot.press(key)
            await settled(pilot)
            await ended(pilot)

    return before


@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_verification_under_way(snap_compare: Compare, size: tuple[int, int]) -> None:
    stage = Stage(scenes.verifying_halfway)

    async def before(pilot: Pilot[None]) -> None:
        await settled(pilot)
        await pilot.press("V")
        screen = await showing(pilot, VerifyScreen)
        await until(pilot, lambda: screen.run.done == 640)
        stage.clock.now += 2.5
        screen.run.put(scenes.progress(960, 1286, 641))
        await until(pilot, lambda: screen.run.done == 960)

    assert snap_compare(stage.app(), terminal_size=size, run_before=before)


def test_small_terminal(snap_compare: Compare) -> None:
    assert snap_compare(Stage(scenes.ready).app(), terminal_size=(60, 18), run_before=settled)


def test_light_theme(snap_compare: Compare) -> None:
    app = Stage(scenes.ready).app()

    async def before(pilot: Pilot[None]) -> None:
        app.theme = LIGHT.name
        await settled(pilot)

    assert snap_compare(app, terminal_size=(120, 36), run_before=before)


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(Stage(scenes.ready).app(), terminal_size=(120, 36), run_before=settled)


def test_sixteen_gpus(snap_compare: Compare) -> None:
    app = Stage(lambda link: scenes.ready(link, 16)).app()
    assert snap_compare(app, terminal_size=(120, 36), run_before=settled)


def test_host_key_question(snap_compare: Compare) -> None:
    stage = Stage(scenes.stranger)

    async def before(pilot: Pilot[None]) -> None:
        await showing(pilot, HostKeyScreen)

    assert snap_compare(stage.app(), terminal_size=(80, 24), run_before=before)
