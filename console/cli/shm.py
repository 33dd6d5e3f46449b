"""hsconsole shm …"""

from __future__ import annotations

import sys

import click

from console.cli import output
from console.cli.guessing import Guessing
from console.cli.session import act, session
from console.operations import calls
from console.text import size
from remote.wire.telemetry import ShmSnapshot


@click.group("shm", cls=Guessing)
def command() -> None:
    """Show who holds the dumps' file system, and remove what dead processes left in /dev/shm."""


@command.command()
@output.json_option
@click.pass_obj
def show(profile: str | None, as_json: bool) -> None:
    """Show the room for dumps and who holds how much of it, once."""
    with session(profile) as (agent, _):
        found = calls.shm(agent)
    if as_json:
        output.print_json(found)
    else:
        print_shm(found)


@command.command()
@output.json_option
@click.option("--dry-run", is_flag=True, help="Show each file that would be removed and why; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def clean(profile: str | None, as_json: bool, dry_run: bool, yes: bool) -> None:
    """Remove shared-memory segments of dead processes.

    NCCL's, SGLang's, Python's, PyTorch's, CUDA's.

    Never dumps, never what a living process has open or may open yet, never what that can't be told of.
    """
    sys.exit(act(profile, "shm.clean", as_json=as_json, dry_run=dry_run, yes=yes))


def print_shm(shm: ShmSnapshot) -> None:
    if shm.problem:
        output.say(f"{shm.path:<8} {shm.problem}")
        return
    output.say(f"{shm.path:<8} {size(shm.used)} of {size(shm.size)} used, {size(shm.free)} free")
    if shm.cgroup_headroom is not None:
        output.say(f"         memory allows {size(shm.cgroup_headroom)} more")
    others = max(0, shm.used - shm.dumps - sum(owner.bytes for owner in shm.owners))
    held = [("dumps", shm.dumps), *((owner.name, owner.bytes) for owner in shm.owners), ("others", others)]
    output.say(f"         held by {', '.join(f'{name} {size(count)}' for name, count in held)}")
    if shm.stale_files:
        what = f"{shm.stale_files} segments of dead processes, {size(shm.stale)}"
        output.say(f"         {what}: hsconsole shm clean", fg="yellow")
    if shm.doubt:
        output.say(f"         {size(shm.unsure)} may be left by dead processes, which can't be told: {shm.doubt}")
