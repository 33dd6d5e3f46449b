"""hsconsole server …"""

from __future__ import annotations

import functools
import sys
from typing import Any

import click

from console.cli import output
from console.cli.canary import prove_what_started
from console.cli.guessing import Guessing
from console.cli.session import EXIT_NOT_OK, Choice, act, interactive, session
from console.config.profile import Profile
from console.errors import Refused
from console.operations import calls, follow
from console.operations.recovery_wish import PYTHONS, RESTART
from console.operations.restart import AS_IT_RUNS, BY_PROFILE, differences
from console.text import span
from remote.wire.plan import Plan
from remote.wire.server import LogLines, ServerState


@click.group("server", cls=Guessing)
def command() -> None:
    """Preflight, start, watch and stop the SGLang server."""


@command.command()
@output.json_option
@click.pass_obj
def preflight(profile: str | None, as_json: bool) -> None:
    """Say on one page what stands between now and a good start. Exits 1 when something does."""
    with session(profile) as (agent, used):
        page = calls.preflight(agent, used)
    if as_json:
        output.print_json({"ok": page.ok, "checks": page.checks})
    else:
        output.print_checks(page.checks)
    sys.exit(0 if page.ok else EXIT_NOT_OK)


@command.command()
@output.json_option
@click.option("--dry-run", is_flag=True, help="Show the exact command; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Follow the load until the server is ready, or has died; then the canary.")
@click.pass_obj
def start(profile: str | None, as_json: bool, dry_run: bool, yes: bool, wait: bool) -> None:
    """Start the server, detached from this command and the link.

    With --wait, exits 1 unless it became ready and the canary proved what it dumps, where it dumps.
    """
    sys.exit(_start(profile, "server.start", as_json=as_json, dry_run=dry_run, yes=yes, wait=wait))


def _start(profile: str | None, action: str | Choice, *, as_json: bool, dry_run: bool, yes: bool, wait: bool) -> int:
    """Whatever ends with a server that loads; the exit status."""
    finish = functools.partial(until_proved, as_json=as_json) if wait else None
    status = act(profile, action, as_json=as_json, dry_run=dry_run, yes=yes, finish=finish)
    if status == 0 and not (wait or dry_run or as_json):
        output.say("Once it is ready, prove what it dumps: hsconsole canary. With --wait that follows by itself.")
    return status


def until_proved(agent: calls.Agent, used: Profile, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    """What follows every start that is waited for: the load to its end, then the canary.

    Returns what that adds to the document, and if all is well.
    """
    state = follow.until_ready(agent, lambda s: None if as_json else _print(s))
    proof, well = prove_what_started(agent, used, state, as_json=as_json)
    return {"state": state, **proof}, well


@command.command()
@output.json_option
@click.option("--dry-run", is_flag=True, help="Show what would be signalled; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def stop(profile: str | None, as_json: bool, dry_run: bool, yes: bool) -> None:
    """Stop the server, and prove it.

    No processes are left, the port is free, the GPU memory is back.
    """
    sys.exit(act(profile, "server.stop", as_json=as_json, dry_run=dry_run, yes=yes))


@command.command()
@output.json_option
@click.option("--as-it-runs", "which", flag_value=AS_IT_RUNS, help="With the flags and variables of the running one.")
@click.option("--by-profile", "which", flag_value=BY_PROFILE, help="With what the profile says now.")
@click.option("--dry-run", is_flag=True, help="Show whom it would stop and the exact command; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Follow the load until the server is ready, or has died; then the canary.")
@click.pass_obj
def restart(profile: str | None, which: str | None, as_json: bool, dry_run: bool, yes: bool, wait: bool) -> None:
    """Stop the server, prove it, start it again by the same command.

    Where the profile says otherwise by now, that is shown and you are asked which. A server that hsconsole did not
    start keeps its own command line. --wait: as of a start.
    """

    def choose(agent: calls.Agent) -> str:
        return which or _asked(calls.plan(agent, AS_IT_RUNS), ask=interactive() and not (yes or as_json or dry_run))

    sys.exit(_start(profile, choose, as_json=as_json, dry_run=dry_run, yes=yes, wait=wait))


def _asked(plan: Plan, *, ask: bool) -> str:
    """As it runs or by the profile: no question where both are the same."""
    differs = differences(plan)
    if not differs:
        return AS_IT_RUNS
    if not ask:
        raise Refused(
            f"the profile says otherwise than what runs: {'; '.join(differs)}",
            "Say which: --as-it-runs or --by-profile.",
        )
    output.say("The profile says otherwise than what runs:")
    for line in differs:
        output.say(f"  {line}", fg="yellow")
    by_profile = click.confirm("Start it as the profile says?", default=False, err=True)
    return BY_PROFILE if by_profile else AS_IT_RUNS


@command.command()
@output.json_option
@click.option("--including", multiple=True, type=int, metavar="PID", help="End this holder too, though it is not ours.")
@click.option("--including-host", multiple=True, type=int, metavar="PID", help="The same, by the Proxmox host's pid.")
@click.option(
    "--last-resort",
    type=click.Choice([PYTHONS, RESTART]),
    callback=lambda _, __, value: value or "",
    help="End every Python process of the container, or restart it. Asks for a typed word.",
)
@click.option("--word", default="", help="The typed word of a last resort, where nobody is there to type it.")
@click.option("--dry-run", is_flag=True, help="Show what would be ended and why; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def recover(profile: str | None, /, **options: Any) -> None:
    """Free the port and clear what a dead server left.

    Through the Proxmox host, if need be.

    Ended is only what is ours; anybody else's process is named, and ended only when it is included.
    """
    from console.cli.recovery import recover_by_command

    sys.exit(recover_by_command(profile, **options))


@command.command()
@output.json_option
@click.pass_obj
def state(profile: str | None, as_json: bool) -> None:
    """Show the server's state, once."""
    with session(profile) as (agent, _):
        found = calls.server_state(agent)
    if as_json:
        output.print_json(found)
    else:
        _print(found)


@command.command()
@output.json_option
@click.option("--follow", "-f", "following", is_flag=True, help="Go on with new lines until interrupted.")
@click.option("--lines", "-n", default=50, show_default=True, type=click.IntRange(1), help="How many to begin with.")
@click.pass_obj
def logs(profile: str | None, as_json: bool, following: bool, lines: int) -> None:
    """Show the end of the server's log. With --follow --json: a JSON document a line."""
    with session(profile) as (agent, _):
        if not following:
            _print_log(calls.server_log(agent, lines), as_json=as_json)
        else:
            follow.log(agent, lines, lambda chunk: _print_new(chunk, as_json=as_json))


def _print_new(chunk: LogLines, *, as_json: bool) -> None:
    _print_log(chunk, as_json=as_json, streaming=True)
    output.end_unread()


def _print_log(chunk: LogLines, *, as_json: bool, streaming: bool = False) -> None:
    if as_json:
        (output.print_json_line if streaming else output.print_json)(chunk)
        return
    if chunk.note:
        output.say(f"— {chunk.note}", fg="yellow")
    if chunk.skipped:
        output.say(f"— {chunk.skipped} lines left out", fg="yellow")
    for line in chunk.lines:
        output.say(line)


def _print(found: ServerState) -> None:
    load = found.load
    percent = f" {load.percent:.0f} %" if load and load.percent is not None else ""
    left = f", {span(load.left)} left" if load and load.left is not None else ""
    stage = f": {load.stage}{percent}{left}" if load else ""
    age = f" for {span(found.age)}" if found.age is not None else ""
    detail = "" if load and load.stage == found.detail else f": {found.detail}"
    output.say(f"{found.phase.value}{age}, port {found.port}{stage}{detail}")
    if found.cause:
        output.say(f"  {found.cause}", fg="red")
    if found.remedy:
        output.say(f"  → {found.remedy}")
    for process in found.processes:
        ours = f"ours: {process.why}" if process.ours else (process.why or "not ours")
        output.say(f"  {process.pid:>8}  {process.state}  {span(process.age):>8}  {process.command[:80]}  ({ours})")
