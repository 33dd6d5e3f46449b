"""hsconsole profiles."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from console.cli import output
from console.config import load
from console.config.profile import Profile
from console.errors import OperatorError
from console.text import harmless
from remote.wire.masking import mask_env, mask_json, secrets_of


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
            for line in output.lines_of(str(entry["problem"])):
                output.say(f"  ✗ {line}", fg="red")
    if not found:
        click.echo("There is no profile yet: `hsconsole init` writes one.")


def _problem(name: str) -> str:
    try:
        load.load(name)
    except OperatorError as error:
        return error.what
    return ""


def _show(name: str, *, as_json: bool) -> None:
    document = _without_secrets(load.load(name))
    if as_json:
        output.print_json(document)
        return
    for section, value in document.items():
        if not isinstance(value, dict):
            click.echo(f"{section} = {harmless(repr(value))}")
            continue
        click.echo(f"[{section}]")
        for key, item in value.items():
            click.echo(f"  {key} = {harmless(repr(item))}")


def _without_secrets(profile: Profile) -> dict[str, Any]:
    """Its keys as the file has them: what is printed lands in scrollbacks, tickets and CI logs."""
    document: dict[str, Any] = mask_json(
        msgspec.to_builtins(profile), secrets_of(profile.server.flags, profile.server.env)
    )
    document["server"]["env"] = mask_env(document["server"]["env"])
    return document
