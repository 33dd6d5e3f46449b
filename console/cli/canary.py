"""hsconsole canary, and the canary that follows a start."""

from __future__ import annotations

import sys
from typing import Any

import click

from console import audit
from console.cli import output
from console.cli.session import EXIT_NOT_OK, session
from console.config.profile import Profile
from console.operations import calls, fate, readiness
from console.operations.verdicts import NAMES, WAITING, WORDS, besides
from console.text import span
from remote.wire.dumps import Canary
from remote.wire.plan import StepResult, Verdict
from remote.wire.server import Phase, ServerState

COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.UNKNOWN: "cyan"}


@click.command("canary")
@output.json_option
@click.pass_obj
def command(profile: str | None, as_json: bool) -> None:
    """Send a few prompts to the running server and prove that their dumps mean what they should. Exits 1 unless so."""
    steps, on_step = output.steps_told(as_json=as_json, only=fate.TITLES)  # the others are checks, told at the end
    with session(profile) as (agent, used):
        audit.refuse_read_only(used)
        _tell_what_is_waited_for(as_json=as_json)
        found = calls.canary(agent, used, on_step)
    if as_json:
        output.print_json({"ok": found.ok, "steps": steps, "canary": found})
    else:
        _print(found, steps)
    sys.exit(0 if found.ok else EXIT_NOT_OK)


def prove_what_started(
    agent: calls.Agent, profile: Profile, server: ServerState, *, as_json: bool
) -> tuple[dict[str, Any], bool]:
    """The canary that follows a start: what it adds to the document, and if all is well."""
    why = readiness.why_no_canary(profile, server)
    steps, on_step = output.steps_told(as_json=as_json, only=fate.TITLES)  # the others are checks, told at the end
    if why:
        if not as_json and server.phase is Phase.READY:
            output.say(f"No canary: {why}.", fg="yellow")
        well = server.phase is Phase.READY and (server.canary is None or server.canary.verdict is Verdict.OK)
        return {"canary": None, "canary_steps": steps, "no_canary": why}, well
    _tell_what_is_waited_for(as_json=as_json)
    found = calls.canary(agent, profile, on_step)
    if not as_json:
        _print(found, steps)
    return {"canary": found, "canary_steps": steps, "no_canary": ""}, found.ok


def _tell_what_is_waited_for(*, as_json: bool) -> None:
    if not as_json:
        output.say(f"Canary: {WAITING}")


def _print(found: Canary, steps: list[StepResult]) -> None:
    """A line a check; steps are the same checks, and an audit log that can't be written."""
    for step in besides(steps, found.checks):
        if step.title not in fate.TITLES:
            output.print_step(step)
    output.print_checks(found.checks)
    if found.tolerances:
        output.say(f"Tolerances: {found.tolerances}")
    kept = "" if found.ok else f"; look at {', '.join(f'req_{number}' for number in found.dumps)}" * bool(found.dumps)
    text = f"{NAMES[found.verdict]} in {span(found.seconds)}: {WORDS[found.verdict]}{kept}"
    output.say(text, fg=COLOURS.get(found.verdict, "red"), bold=True)
