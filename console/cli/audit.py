"""hsconsole audit …"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from console import audit
from console.cli import output
from console.cli.guessing import Guessing
from console.cli.session import EXIT_NOT_OK, session
from console.config import load
from console.operations import calls
from console.text import span
from remote.wire import chain
from remote.wire.audit import ChainReport, Entry

LAPTOP, CONTAINER = "laptop", "container"
LINES_AN_ACTION = 2
STEPS_SHOWN = 20

where_option = click.option(
    "--where", default=LAPTOP, show_default=True, type=click.Choice([LAPTOP, CONTAINER]), help="Whose log."
)


@click.group("audit", cls=Guessing)
def command() -> None:
    """Show what was done, by whom and when, and verify that record."""


@command.command()
@output.json_option
@click.option(
    "--last", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many actions, newest last."
)
@where_option
@click.pass_obj
def show(profile: str | None, as_json: bool, last: int, where: str) -> None:
    """Show the last actions.

    Who, when, the exact commands, each step's result, the outcome.
    """
    if where == CONTAINER:
        with session(profile) as (agent, _):
            found = calls.audit_entries(agent, last * LINES_AN_ACTION)
    else:
        found = chain.last(str(audit.path_of(load.load(profile).name)), last * LINES_AN_ACTION)
    if as_json:
        output.print_json(found)
        return
    actions = _by_action(found.entries)[-last:]
    for entries in actions:
        _print_action(entries)
    if not actions:
        output.say(f"Nothing is on record in {found.path}.")


@command.command()
@output.json_option
@where_option
@click.pass_obj
def verify(profile: str | None, as_json: bool, where: str) -> None:
    """Follow the chain of hashes from the first line to the last. Exits 1 where a line does not fit, and names it."""
    if where == CONTAINER:
        with session(profile) as (agent, _):
            found = calls.audit_chain(agent)
    else:
        found = chain.verify(str(audit.path_of(load.load(profile).name)))
    if as_json:
        output.print_json(found)
    else:
        _print_chain(found)
    sys.exit(0 if found.ok else EXIT_NOT_OK)


def _by_action(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Begin and end of each action together, in the order in which they began; the log's own lines are left out."""
    actions: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.id:
            actions.setdefault(entry.id, []).append(entry)
    return list(actions.values())


def _print_action(entries: list[Entry]) -> None:
    first = entries[0]
    begun = next((entry.data for entry in entries if entry.kind == "begin"), None)
    ended = next((entry.data for entry in entries if entry.kind == "end"), None)
    operator = _text((begun or {}).get("operator"))
    by = f"{operator} as {first.who}" if operator else first.who
    output.say(f"{first.at}  {first.action}  {by}  {first.profile}", bold=True)
    if begun is None:
        output.say("    its beginning is not on record here", fg="yellow")
    else:
        _print_begun(begun)
    if ended is None:
        output.say("    ! begun, and no end on record: cut off midway, or still under way", fg="yellow")
    else:
        _print_ended(ended, _planned(begun or {}))


def _print_begun(data: dict[str, Any]) -> None:
    if data.get("title"):
        output.say(f"    {_text(data['title'])}")
    for command_line in _planned(data):
        output.say(f"    $ {command_line}", fg="cyan")
    for loss in _list(data.get("losses")):
        output.say(f"    ! {_text(loss)}", fg="yellow")


def _planned(data: dict[str, Any]) -> list[str]:
    commands = [_text(step.get("command")) for step in _dicts(data.get("steps"))]
    return list(filter(None, commands or map(_text, _list(data.get("commands")))))


def _print_ended(data: dict[str, Any], planned: Iterable[str] = ()) -> None:
    """planned: commands that were told before."""
    steps, judged = _dicts(data.get("steps")), _judged(data.get("result"))
    for step in steps[:STEPS_SHOWN]:
        mark = judged.get(_text(step.get("title"))) or ("✓" if step.get("ok") else "✗")
        output.say(f"    {mark} {_text(step.get('title'))}  {_text(step.get('detail'))}")
        command_line = _text(step.get("command"))
        if command_line and command_line not in planned:
            output.say(f"      $ {command_line}", fg="cyan")
    if len(steps) > STEPS_SHOWN:
        output.say(f"    … and {len(steps) - STEPS_SHOWN} more steps (--json shows all)")
    error, result = data.get("error"), data.get("result")
    if isinstance(error, dict):
        words = f"{_text(error.get('title'))}: {_text(error.get('what'))}".lstrip(": ")
    else:
        words = _text(result.get("summary")) if isinstance(result, dict) else ""
    seconds = data.get("seconds")
    took = f" ({span(seconds)})" if isinstance(seconds, int | float) else ""
    verdict = "well" if data.get("ok") else "NOT well"
    output.say(f"    {words or verdict}{took}", fg="green" if data.get("ok") else "red")


def _judged(result: Any) -> dict[str, str]:
    """The mark of each check by its name: a step alone tells no doubt from a fault."""
    checks = _dicts(result.get("checks")) if isinstance(result, dict) else []
    marks = {verdict.value: mark for verdict, (mark, _) in output.MARKS.items()}
    return {_text(check.get("name")): marks.get(_text(check.get("verdict")), "") for check in checks}


def _print_chain(found: ChainReport) -> None:
    for note in found.notes:
        output.say(f"· {note}")
    if found.misfit is not None:
        place = f"{found.misfit.file}:{found.misfit.line}" if found.misfit.line else found.misfit.file
        output.say(f"✗ {place}: {found.misfit.what}", fg="red", bold=True)
        return
    if not found.files:
        output.say("✓ There is no log yet.", fg="green")
        return
    output.say(f"✓ {found.lines} lines, each fits the one before it: {', '.join(found.files)}", fg="green")


def _text(value: Any) -> str:
    """What a log says may be of any type: others can write to the container's."""
    return "" if value is None else str(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]
