"""Opening the screen. Textual is imported here, only when a screen is wanted."""

from __future__ import annotations

import sys

from console.cli.output import on_terminal
from console.config import load
from console.config.profile import Profile
from console.errors import OperatorError


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
    """Draw the screen for `profile` until the operator quits."""
    need_terminal("`hsconsole status` says the same without a screen.")
    from console.link import Link
    from console.tui.app import HsConsoleApp

    HsConsoleApp(profile, Link, hint=hint).run()
