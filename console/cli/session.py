"""From a profile's name to a live agent, and an action from its plan to its outcome."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from console import audit
from console.cli import output
from console.client import AgentClient, connect
from console.config import load
from console.config.profile import Profile
from console.errors import OperatorError, Refused
from console.operations import calls, fate
from console.text import harmless
from remote.wire.plan import OnStep, Outcome, Plan

EXIT_NOT_OK = 1


def ask_host_key(host: str, kind: str, fingerprint: str) -> bool:
    click.echo(f"The host {harmless(host)} is not known. Its {kind} key is {fingerprint}.", err=True)
    return click.confirm("Trust it and store it in known_hosts?", default=False, err=True)


def interactive() -> bool:
    return output.on_terminal(sys.stdin, sys.stderr)


@contextlib.contextmanager
def open_agent(profile: Profile) -> Iterator[AgentClient]:
    """A live agent for `profile`, closed at the end. Without a terminal an unknown host is refused."""
    client = connect(profile, ask_host_key=ask_host_key if interactive() else None)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def session(profile_name: str | None) -> Iterator[tuple[AgentClient, Profile]]:
    profile = load.load(profile_name)
    with open_agent(profile) as agent:
        yield agent, profile


Choice = Callable[[AgentClient], str]
Finish = Callable[[calls.Agent, Profile], tuple[dict[str, Any], bool]]


def act(
    profile_name: str | None,
    action: str | Choice,
    *,
    as_json: bool,
    dry_run: bool,
    yes: bool,
    finish: Finish | None = None,
) -> int:
    """Plan `action`, show it, have it confirmed, run it; returns the exit status.

    action: its name, or what tells it once there is an agent.
    finish: goes on after a good end (also when nothing was needed): what it adds to the document, and if all is well.
    """
    with session(profile_name) as (agent, profile):
        plan = calls.plan(agent, action if isinstance(action, str) else action(agent))
        document, status = carry_out(
            profile,
            plan,
            lambda on_step: calls.run(agent, profile, plan, on_step),
            as_json=as_json,
            dry_run=dry_run,
            yes=yes,
        )
        if status == 0 and not dry_run and finish is not None:
            status = _carried_out(document, lambda: _finish(agent, profile, document, finish), as_json=as_json)
        if as_json:
            output.print_json(document)
        return status


def carry_out(
    profile: Profile,
    plan: Plan,
    work: Callable[[OnStep], Outcome],
    *,
    as_json: bool,
    dry_run: bool,
    yes: bool,
    typed: str = "",
) -> tuple[dict[str, Any], int]:
    """Show a plan, have it confirmed, do `work`, step by step; returns what --json tells of it, and the exit status.

    typed: the word of a last resort, where it was given beforehand.
    """
    document: dict[str, Any] = {"plan": plan, "steps": [], "outcome": None}
    if not as_json:
        output.print_plan(plan)
        if dry_run and plan.diff:
            output.print_diff(plan.diff)
    if dry_run or not plan.needed:
        return document, 0
    audit.refuse_read_only(profile)  # before anybody is asked to confirm what can't be
    _confirm(plan.word, yes=yes, as_json=as_json, typed=typed)
    document["steps"], on_step = output.steps_told(as_json=as_json)

    def told() -> bool:
        outcome = document["outcome"] = work(on_step)
        if not as_json:
            output.print_outcome(outcome)
        return outcome.ok

    return document, _carried_out(document, told, as_json=as_json)


def _carried_out(document: dict[str, Any], work: Callable[[], bool], *, as_json: bool) -> int:
    """The exit status of `work`, which says if all is well. In JSON an error stands beside what was seen before it."""
    try:
        well = work()
    except OperatorError as error:
        if not as_json:
            raise
        document["error"] = error.report()
        return error.exit_code
    return 0 if well else EXIT_NOT_OK


def _finish(agent: AgentClient, profile: Profile, document: dict[str, Any], finish: Finish) -> bool:
    """What goes on after the outcome."""
    with fate.again(agent) as living:
        more, well = finish(living, profile)
    document.update(more)
    return well


def _confirm(word: str, *, yes: bool, as_json: bool, typed: str) -> None:
    """Returns when the operator agrees. word: what must be typed, or given as `typed`; then `yes` is not enough."""
    if typed == word if word else yes:
        return
    if as_json or not interactive():
        agree = f"--word {shlex.quote(word)}" if word else "--yes"
        raise Refused(
            "this changes the container and nobody is there to confirm it", f"Add {agree} once you have read --dry-run."
        )
    if not word:
        click.confirm("Proceed?", default=False, abort=True, err=True)
    elif click.prompt(f"Type {word!r} to proceed", default="", show_default=False, err=True) != word:
        raise click.Abort
