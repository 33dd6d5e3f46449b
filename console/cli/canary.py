"""hsconsole canary."""

from __future__ import annotations

import sys

import click

from console.cli import output
from console.cli.session import EXIT_NOT_OK, session
from console.operations import calls
from console.operations.verdicts import NAMES, WORDS
from console.text import span
from remote.wire.dumps import Canary
from remote.wire.plan import Verdict

COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.UNKNOWN: "cyan"}


@click.command("canary")
@output.json_option
@click.pass_obj
def command(profile: str | None, as_json: bool) -> None:
    """Send a few prompts to the running server and prove that their dumps mean what they should. Exits 1 unless so."""
    steps, on_step = output.steps_told(as_json=as_json)
    with session(profile) as (agent, used):
        found = calls.canary(agent, used, on_step)
    if as_json:
        output.print_json({"ok": found.ok, "steps": steps, "canary": found})
    else:
        _print(found)
    sys.exit(0 if found.ok else EXIT_NOT_OK)


def _print(found: Canary) -> None:
    output.print_checks(found.checks)
    kept = "" if found.ok else f"; look at {', '.join(f'req_{number}' for number in found.dumps)}" * bool(found.dumps)
    text = f"{NAMES[found.verdict]} in {span(found.seconds)}: {WORDS[found.verdict]}{kept}"
    output.say(text, fg=COLOURS.get(found.verdict, "red"), bold=True)
