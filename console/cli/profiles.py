"""hsconsole profiles."""

from __future__ import annotations

import click
import msgspec

from console.cli import output
from console.config import load
from console.errors import OperatorError
from console.text import harmless


@click.command("profiles")
@output.json_option
@click.pass_obj
def command(profile: str | None, as_json: bool) -> None:
    """List the profiles; with --profile NAME, show that one as it is understood."""
    if profile is not None:
        _show(profile, as_json=as_json)
        return
    found = [{"name": name, "file": str(load.path_of(name)), "problem": _problem(name)} for name in load.names()]
    if as_json:
        output.print_json(found)
        return
    for entry in found:
        click.echo(f"{harmless(str(entry['name'])):<20} {entry['file']}")
        if entry["problem"]:
            output.say(f"  ✗ {entry['problem']}", fg="red")
    if not found:
        click.echo("There is no profile yet: `hsconsole init` writes one.")


def _problem(name: str) -> str:
    try:
        load.load(name)
    except OperatorError as error:
        return error.what
    return ""


def _show(name: str, *, as_json: bool) -> None:
    document = msgspec.to_builtins(load.load(name))
    if as_json:
        output.print_json(document)
        return
    for section, value in document.items():
        if not isinstance(value, dict):
            click.echo(f"{section} = {value!r}")
            continue
        click.echo(f"[{section}]")
        for key, item in value.items():
            click.echo(f"  {key} = {harmless(repr(item))}")
