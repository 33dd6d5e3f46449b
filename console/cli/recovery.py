"""hsconsole server recover: with the link or without it."""

from __future__ import annotations

import contextlib

from console.cli import output
from console.cli.session import carry_out, open_agent
from console.config import load
from console.config.profile import Profile
from console.errors import HostKeyChanged, HostKeyUnknown, LinkError
from console.operations import recover
from console.operations.calls import Agent
from console.operations.recovery_wish import Wish


def recover_by_command(
    profile_name: str | None,
    *,
    including: tuple[int, ...],
    including_host: tuple[int, ...],
    last_resort: str,
    word: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Plan, show, confirm, run; returns the exit status."""
    profile = load.load(profile_name)
    with contextlib.ExitStack() as stack:
        agent = _agent(profile, stack, as_json=as_json)
        plan = recover.plan(agent, profile, Wish(including, including_host, last_resort))
        document, status = carry_out(
            profile,
            plan,
            lambda on_step: recover.run(agent, profile, plan, on_step),
            as_json=as_json,
            dry_run=dry_run,
            yes=yes,
            typed=word,
        )
    if as_json:
        output.print_json(document)
    return status


def _agent(profile: Profile, stack: contextlib.ExitStack, *, as_json: bool) -> Agent | None:
    """None when there is no link but a Proxmox host to go through. A host key that is not right stays a hard stop."""
    try:
        return stack.enter_context(open_agent(profile))
    except (HostKeyChanged, HostKeyUnknown):
        raise
    except LinkError as error:
        if profile.proxmox is None:
            raise
        if not as_json:
            output.say(f"No link ({error.what}): going through the Proxmox host {profile.proxmox.host}", fg="yellow")
        return None
