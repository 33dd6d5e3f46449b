"""Opening the screen. Textual is imported here, only when a screen is wanted."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from console.cli.output import on_terminal
from console.config import load
from console.config.profile import Profile
from console.errors import OperatorError

if TYPE_CHECKING:
    from console.tui.app import HsConsoleApp

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NoTerminal(OperatorError):
    id = "usage.no_terminal"
    title = "There is no terminal to draw on"
    exit_code = 2


def open_screen(profile_name: str | None) -> None:
    open_profile(load.load(profile_name))


def need_terminal(otherwise: str) -> None:
    """Raise NoTerminal where nothing can be drawn. otherwise: what to do instead."""
    if not on_terminal(sys.stdin, sys.stdout):
        raise NoTerminal("stdin or stdout is not a terminal", otherwise)


def open_profile(profile: Profile, hint: str = "") -> None:
    """Draw the screen for `profile` until the operator quits. Raises SystemExit with 128 + n when signal n ended it.

    What went wrong in the screen itself is raised when the terminal is as it was.
    """
    need_terminal("`hsconsole status` says the same without a screen.")
    from console.link import Link
    from console.tui.app import HsConsoleApp

    app = HsConsoleApp(profile, Link, hint=hint)
    before = [(number, signal.getsignal(number)) for number in ENDINGS]
    try:
        asyncio.run(_show(app))
    finally:
        for number, handler in before:  # the loop leaves the defaults behind
            signal.signal(number, handler)
    if app.fault is not None:
        raise app.fault
    if app.return_code:
        sys.exit(app.return_code)


async def _show(app: HsConsoleApp) -> None:
    """Run `app`; a signal makes it leave like a key, so that the terminal is given back as it was."""
    for number in ENDINGS:
        asyncio.get_running_loop().add_signal_handler(number, app.exit, None, 128 + number)
    await app.run_async()
