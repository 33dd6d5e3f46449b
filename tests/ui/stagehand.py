"""Running an app on a fake link, and waiting for what it should come to."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from textual.pilot import Pilot
from textual.screen import Screen

from console.tui.app import HsConsoleApp
from console.tui.run import Run
from console.tui.screens.request import RequestScreen
from console.tui.screens.run import RunScreen
from console.tui.screens.verify import VerifyScreen
from console.tui.verification import Verification
from tests.living import PATIENCE
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage

AnyScreen = TypeVar("AnyScreen", bound=Screen[Any])


async def until(pilot: Pilot[None], reached: Callable[[], object], what: str = "") -> None:
    """Wait for it, then for all that was set going with it: what was written may not be laid out yet."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, what or "not reached in time"
        await asyncio.sleep(0.005)
    await pilot.pause()


def app_of(pilot: Pilot[None]) -> HsConsoleApp:
    assert isinstance(pilot.app, HsConsoleApp)
    return pilot.app


def link_of(stage: Stage) -> FakeLink:
    assert stage.link is not None
    return stage.link


async def settled(pilot: Pilot[None]) -> None:
    """All that the scene said has been taken in and shown."""
    app = app_of(pilot)
    await until(pilot, lambda: app.link is not None, "no link")
    await until(pilot, lambda: not app._feed._awake, "values still wait")
    if app.picture.live:
        await until(pilot, lambda: app.picture.patch is not None or app.picture.patch_problem, "no word of the patch")
    app.look()
    await pilot.pause()


async def ended(pilot: Pilot[None]) -> None:
    """What the page that is seen runs has come to its end, if it runs anything."""
    screen = pilot.app.screen
    if isinstance(screen, RunScreen | VerifyScreen):
        run: Run | Verification = screen.run
        await until(pilot, lambda: run.ended is not None)
    elif isinstance(screen, RequestScreen) and screen.verification is not None:
        verification = screen.verification
        await until(pilot, lambda: verification.ended is not None)


@contextlib.asynccontextmanager
async def on_stage(stage: Stage, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Pilot[None]]:
    app = stage.app()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot


async def showing(pilot: Pilot[None], kind: type[AnyScreen]) -> AnyScreen:
    await until(pilot, lambda: isinstance(pilot.app.screen, kind), f"{kind.__name__}, not {pilot.app.screen}")
    screen = pilot.app.screen
    assert isinstance(screen, kind)
    return screen


def words(pilot: Pilot[None]) -> str:
    """All text on the screen, line by line."""
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


def toasts(pilot: Pilot[None]) -> str:
    return "\n".join(f"{note.title}: {note.message}" for note in pilot.app._notifications)
