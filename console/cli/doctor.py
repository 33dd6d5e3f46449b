"""hsconsole doctor."""

from __future__ import annotations

import contextlib
import sys

import click

from console.cli import output
from console.cli.session import EXIT_NOT_OK, open_agent
from console.config import load
from console.operations import doctor
from remote.wire.plan import Check


@click.command("doctor")
@output.json_option
@click.pass_obj
def command(profile: str | None, as_json: bool) -> None:
    """Check everything between this laptop and a good dump. Exits 1 when something is bad."""
    used = load.load(profile)
    seen: list[Check] = []

    def on_check(check: Check) -> None:
        seen.append(check)
        if not as_json:
            output.print_checks([check])

    with contextlib.ExitStack() as stack:
        well = doctor.examine(used, lambda p: stack.enter_context(open_agent(p)), on_check)
    if as_json:
        output.print_json({"profile": used.name, "ok": well, "checks": seen})
    sys.exit(0 if well else EXIT_NOT_OK)
