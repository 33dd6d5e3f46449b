"""hsconsole status."""

from __future__ import annotations

import click

from console.cli import output
from console.cli.session import session
from console.operations import overview
from console.operations.overview import Overview
from console.text import size, span


@click.command("status")
@output.json_option
@click.pass_obj
def command(profile: str | None, as_json: bool) -> None:
    """Show everything the main screen shows, once."""
    with session(profile) as (agent, used):
        found = overview.take(agent)
    if as_json:
        output.print_json({"profile": used.name, **overview.as_document(found)})
    else:
        _print(used.name, found)


def _print(profile: str, found: Overview) -> None:
    server, shm, counts = found.server, found.shm, found.dumps.counts
    age = f" for {span(server.age)}" if server.age is not None else ""
    output.say(f"profile  {profile}", bold=True)
    output.say(f"server   {server.phase.value}{age}, port {server.port}: {server.detail}")
    output.say(f"patch    {found.patch.state.value}: {found.patch.summary}")
    for depth in found.patch.depths:
        output.say(f"         {depth.name}: {depth.verdict.value}, {depth.found}")
    if found.gpus.problem:
        output.say(f"gpus     {found.gpus.problem}")
    for gpu in found.gpus.gpus:
        used = "memory not given" if gpu.memory_used is None else f"{size(gpu.memory_used)} used"
        total = "" if gpu.memory_total is None else f" of {size(gpu.memory_total)}"
        output.say(f"gpu {gpu.index:<4} {gpu.name}  {gpu.problem or used + total}")
    held = f"{size(shm.used)} of {size(shm.size)} used, dumps {size(shm.dumps)}"
    output.say(f"{shm.path:<8} {shm.problem or held}")
    output.say(f"dumps    {counts.complete} complete, {counts.writing} in progress, {counts.bad} bad")
    if found.dumps.problem:
        output.say(f"         {found.dumps.problem}")
