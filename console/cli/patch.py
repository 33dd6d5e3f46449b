"""hsconsole patch …"""

from __future__ import annotations

import sys

import click

from console.cli import output
from console.cli.guessing import Guessing
from console.cli.session import EXIT_NOT_OK, act, session
from console.operations import calls
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.plan import Verdict


@click.group("patch", cls=Guessing)
def command() -> None:
    """Check, show, apply and revert the patch of SGLang's model file."""


@command.command()
@output.json_option
@click.option("--dry-run", is_flag=True, help="The same: a check changes nothing.")
@click.pass_obj
def check(profile: str | None, as_json: bool, dry_run: bool) -> None:
    """Look four deep: text, hash, what is imported, what is loaded.

    Exits 0 only when the patch is applied and no depth is bad.
    """
    del dry_run
    with session(profile) as (agent, _):
        status = calls.patch_status(agent)
    if as_json:
        output.print_json(status)
    else:
        _print(status)
    well = status.state is PatchState.APPLIED and all(depth.verdict is not Verdict.BAD for depth in status.depths)
    sys.exit(0 if well else EXIT_NOT_OK)


@command.command()
@output.json_option
@click.option("--dry-run", is_flag=True, help="The same: a diff changes nothing.")
@click.pass_obj
def diff(profile: str | None, as_json: bool, dry_run: bool) -> None:
    """Show what `apply` would change; once it is applied, `revert`."""
    del dry_run
    with session(profile) as (agent, _):
        plan = calls.patch_diff(agent)
    if as_json:
        output.print_json(plan)
        return
    output.say(plan.title, bold=True)
    output.print_diff(plan.diff)


def _action(name: str, help_text: str) -> None:
    @command.command(name, help=help_text)
    @output.json_option
    @click.option("--dry-run", is_flag=True, help="Show the plan and the diff; change nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @click.pass_obj
    def run(profile: str | None, as_json: bool, dry_run: bool, yes: bool) -> None:
        sys.exit(act(profile, f"patch.{name}", as_json=as_json, dry_run=dry_run, yes=yes))


_action("apply", "Write the hooks into the model file, the dumper beside SGLang.")
_action("revert", "Put SGLang's own file back, byte for byte, and remove the dumper.")


def _print(status: PatchStatus) -> None:
    output.say(f"{status.state.value}: {status.summary}", bold=True)
    if status.model_file:
        output.say(f"  {status.model_file}")
    if status.sglang_version:
        output.say(f"  sglang {status.sglang_version}, {status.family or 'no recipe fits'}, by {status.python}")
    for line in status.lines:
        output.say(f"{line.number:>6}: {line.text}", fg="cyan")
    output.print_checks(status.depths)
    for note in status.notes:
        output.say(f"· {note}")
