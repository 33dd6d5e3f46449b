"""An operator at the real screen: presses keys, and waits for what the screen then shows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from textual.pilot import Pilot

from console.tui.app import HsConsoleApp
from console.tui.picture import Picture
from console.tui.run import Run
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.run import RunScreen
from remote.wire.plan import Plan

T = TypeVar("T")
SIZE = (120, 36)
POLL = 0.05
PATIENCE = 300.0  # seconds; the CPU is shared, and a server may load on it


class Keyboard:
    """The app, its picture, and keys. Every wait has a deadline and says what it waited for."""

    def __init__(self, app: HsConsoleApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def picture(self) -> Picture:
        return self.app.picture

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, what: str, look: Callable[[], T | None], seconds: float = PATIENCE) -> T:
        """The first thing `look` returns that is true."""
        deadline = time.monotonic() + seconds
        while True:
            seen = look()
            if seen:
                await self.pilot.pause()
                return seen
            showing = type(self.app.screen).__name__
            assert time.monotonic() < deadline, f"no {what} within {seconds:.0f} s; {showing} is on the screen"
            await asyncio.sleep(POLL)

    async def plan(self, key: str) -> Plan:
        """Press an action's key; the plan that the confirmation then shows."""
        await self.press(key)
        screen = await self.until("confirmation", lambda: self._on(ConfirmScreen))
        return screen.plan

    async def go_ahead(self) -> Run:
        """Confirm (Cancel has the focus, so it takes a step to the right) and wait for the action's end."""
        await self.press("right", "enter")
        return await self.ended()

    async def ended(self) -> Run:
        screen = await self.until("run", lambda: self._on(RunScreen))
        await self.until("end of the run", lambda: screen.run.ended is not None)
        return screen.run

    def _on(self, kind: type[T]) -> T | None:
        return self.app.screen if isinstance(self.app.screen, kind) else None


@contextlib.asynccontextmanager
async def at_the_screen(app: HsConsoleApp, size: tuple[int, int] = SIZE) -> AsyncIterator[Keyboard]:
    async with app.run_test(size=size) as pilot:
        yield Keyboard(app, pilot)
