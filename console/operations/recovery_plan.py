"""From what was seen to the plan of a recovery: whom it ends and why, whom it leaves alone, and what it can't do.

Pure: facts in, plan out. Ended by default is only what is ours; anybody else must be named by the operator. The plan's
basis holds the very lines and processes that its steps show: a run takes them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from console.config.profile import Profile
from console.errors import Refused
from console.operations import hostcommands, recovery_words
from console.operations import recovery_targets as targets
from console.operations.hostview import HostProcess
from console.operations.recovery_targets import Reach
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import ACTION, PYTHONS, RESTART, Wish
from console.ssh.pct import pct_exec
from remote.wire.plan import Plan, Step
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo

WELL = (Phase.READY, Phase.LOADING, Phase.STARTING)
STOP, START = 60.0, 60.0  # seconds, of the container


def build(seen: Seen, profile: Profile, wish: Wish) -> Plan:
    """The plan. Raises Refused when something stands in the way that only more words of the operator would end."""
    _refuse_what_is_out_of_reach(seen, profile, wish)
    reach = targets.reach(seen, targets.of_container(seen.facts, wish))
    inside = reach.targets
    outside = targets.of_host(seen, profile, wish)
    if reach.beyond and not (inside or outside or wish.last):
        raise _out_of_reach(seen, reach.beyond)
    thaw = targets.frozen_files(seen, inside, outside)
    busy = _works(seen.facts) and not (wish.including or wish.last)
    needed = bool(inside or outside or thaw or seen.sshd_dead or wish.last) and not busy
    if not needed:
        return _nothing(seen, profile, busy=busy)
    basis = _basis(seen, profile, reach, outside, thaw, wish)
    steps = (
        *(Step(recovery_words.inside(one, seen.memory.inside.get(one.pid, ""))) for one in inside),
        *(Step(_outside(one, seen, profile)) for one in outside),
        *recovery_words.steps(basis, profile.server.port),
    )
    in_the_way = seen.facts.processes if seen.facts else ()
    left_alone = [one for one in in_the_way if one not in inside and one not in reach.beyond]
    title = f"Free port {profile.server.port} and clear what a dead server left"
    return Plan(
        action=ACTION,
        title=f"Thaw container {_vmid(profile)}, which is frozen as a whole" if targets.wholly_frozen(seen) else title,
        needed=True,
        steps=steps,
        losses=_losses(seen, inside, outside, profile, wish),
        notes=tuple(recovery_words.notes(seen, profile, left_alone, reach.beyond)),
        basis=basis,
        word={PYTHONS: "kill every python", RESTART: f"restart {_vmid(profile)}"}.get(wish.last, ""),
    )


def _refuse_what_is_out_of_reach(seen: Seen, profile: Profile, wish: Wish) -> None:
    if wish.last == RESTART and seen.limits:
        raise Refused(
            f"the container can't be restarted within a limit of time: {seen.limits}",
            "Allow that user sudo for all commands, set proxmox.user to root, or run `pct reboot` there yourself.",
        )
    if seen.facts is None and seen.host is not None and seen.host.init is None and wish.last != RESTART:
        raise Refused(
            f"container {_vmid(profile)} is not running ({seen.no_inside})",
            f"Start it there (`pct start {_vmid(profile)}`), or: hsconsole server recover --last-resort restart",
        )


def _outside(process: HostProcess, seen: Seen, profile: Profile) -> str:
    memory = seen.memory.outside.get(process.pid, "")
    return recovery_words.outside(process, ours=targets.ours_by_host(process, profile), memory=memory)


def _works(facts: PortFacts | None) -> bool:
    """A server that answers, or is on its way: to end it is `server stop`'s business."""
    if facts is None or facts.phase not in WELL:
        return False
    return facts.phase is not Phase.LOADING or not any(process.holds for process in facts.processes)


def _nothing(seen: Seen, profile: Profile, *, busy: bool) -> Plan:
    port = profile.server.port
    facts = seen.facts
    if busy and facts is not None:
        note = "To end it all the same: hsconsole server stop"
        return Plan(
            ACTION, f"The server on port {port} is {facts.phase.value}", needed=False, notes=(facts.detail, note)
        )
    held = [recovery_words.brief(process) for process in facts.processes] if facts else []
    held += [recovery_words.host_brief(process) for process in targets.candidates(seen)]
    unseen = facts.unseen if facts else ()
    if held or unseen or (facts is not None and facts.bind_problem):
        raise _refusal(seen, profile, held)
    notes = (*recovery_words.lingering(facts), *recovery_words.dead(facts))
    return Plan(ACTION, f"Port {port} is free and nothing of a dead server is left", needed=False, notes=notes)


def _refusal(seen: Seen, profile: Profile, held: list[str]) -> Refused:
    port = profile.server.port
    words = [
        f"--including {process.pid}" for process in (seen.facts.processes if seen.facts else ()) if not process.ours
    ]
    words += [f"--including-host {process.pid}" for process in targets.candidates(seen)]
    if words:
        what = (
            f"port {port} is held by what is not ours, and nobody else's process is ended by default: {'; '.join(held)}"
        )
        return Refused(what, f"If it may be ended: hsconsole server recover {' '.join(words)}")
    facts = seen.facts
    if facts is None or not facts.unseen:
        problem = facts.bind_problem if facts else "held"
        return Refused(f"port {port} can't be bound ({problem}), and no process holds it", "Look again in a minute.")
    what = f"port {port} is held, on {', '.join(facts.unseen)}, by a process that can't be seen from here"
    if profile.proxmox is None:
        return Refused(f"{what} (as {facts.user})", _more_sight(facts))
    return Refused(
        f"{what}, nor from the Proxmox host ({seen.no_host or 'which sees nobody either'})", _more_sight(facts)
    )


def _more_sight(facts: PortFacts) -> str:
    if facts.user != "root" and not facts.as_root:
        return f"{facts.user} is not root, and {facts.no_root}: log in as root, or allow sudo without a password."
    return "It may be outside of this container: give the profile its [proxmox] table, so that the host can look."


def _losses(
    seen: Seen, inside: list[ProcessInfo], outside: list[HostProcess], profile: Profile, wish: Wish
) -> tuple[str, ...]:
    lost = list(seen.facts.losses) if seen.facts else []
    if any(process.ours for process in inside):
        lost.append("Requests under way and dumps not finished.")
    lost += [f"What pid {process.pid} is doing: it is not ours." for process in inside if not process.ours]
    ours = [process for process in outside if targets.ours_by_host(process, profile)]
    lost += [f"What host pid {process.pid} is doing." for process in outside if process not in ours]
    if seen.facts is None and ours:
        lost.append("The server, if it still answers: nobody could ask it from inside.")
    if wish.last == RESTART:
        lost.append(f"Everything that runs in container {_vmid(profile)}, and all of its /dev/shm.")
    return tuple(lost)


def _out_of_reach(seen: Seen, beyond: list[ProcessInfo]) -> Refused:
    facts = seen.facts
    assert facts is not None  # noqa: S101 - they were seen from inside
    who = "; ".join(recovery_words.brief(one) for one in beyond)
    return Refused(
        f"{facts.user} may not signal what is in the way, and {facts.no_root}: {who}",
        f"Log in as root, allow {facts.user} sudo without a password, or have the Proxmox host do it "
        f"({seen.no_host or 'the profile names none'}).",
    )


def _basis(
    seen: Seen, profile: Profile, reach: Reach, outside: list[HostProcess], thaw: list[str], wish: Wish
) -> dict[str, Any]:
    """thaw, host, pct, restart, sshd: lines for the host. processes, as_root, known: pid and start time of each.

    host, pct: by signal, "0" being the look in between; empty where there is nobody to signal. way: the one seen by.
    whole: the container as a whole is thawed. container: by what the host knows this run of it, None if it can't tell.
    """
    prefix, facts = seen.prefix or "", seen.facts
    sshd = seen.sshd_dead and wish.last != RESTART
    return {
        "way": seen.way,
        "whole": targets.wholly_frozen(seen),
        "thaw": [hostcommands.line(prefix, hostcommands.thaw(file)) for file in thaw],
        "host": _ladder(outside, lambda words: hostcommands.line(prefix, words)),
        "pct": _ladder(reach.by_pct, lambda words: prefix + pct_exec(_vmid(profile), *words)),
        "processes": _identities(reach.own),
        "as_root": _identities(reach.as_root),
        "sudo": facts.as_root if facts else "",
        "known": _identities(facts.processes if facts else ()),
        "restart": _restart(seen, profile, prefix) if wish.last == RESTART else [],
        "container": [seen.host.init, seen.host.namespace] if seen.host else None,
        "sshd": prefix + pct_exec(_vmid(profile), "sh", "-c", hostcommands.RESTART_SSHD) if sshd else "",
    }


def _identities(those: Iterable[ProcessInfo | HostProcess]) -> list[list[int]]:
    return [[process.pid, process.start_ticks] for process in those]


def _ladder(those: Sequence[ProcessInfo | HostProcess], line: Callable[[list[str]], str]) -> dict[str, str]:
    names = ("TERM", "KILL", "0") if those else ()
    return {name: line(hostcommands.signal(name, _identities(those))) for name in names}


def _restart(seen: Seen, profile: Profile, prefix: str) -> list[list[str]]:
    """Lines, and what the container's status is to be after each."""
    stopped = seen.host is not None and seen.host.init is None
    wanted = (("stop", STOP, "stopped"),) if not stopped else ()
    return [
        [hostcommands.line(prefix, hostcommands.bounded(limit, command, _vmid(profile))), status]
        for command, limit, status in (*wanted, ("start", START, "running"))
    ]


def _vmid(profile: Profile) -> int:
    return profile.proxmox.vmid if profile.proxmox else 0
