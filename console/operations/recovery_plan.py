"""From what was seen to the plan of a recovery: whom it ends and why, whom it leaves alone, and what it can't do.

Pure: facts in, plan out. Ended by default is only what is ours; anybody else must be named by the operator. The plan's
basis holds the very lines and processes that its steps show: a run takes them from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from console.config.profile import Profile
from console.errors import Refused
from console.operations import hostcommands, recovery_words
from console.operations.hostview import HostProcess
from console.operations.recovery_ways import Seen
from console.ssh.pct import pct_exec
from remote.wire.plan import Plan, Step
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo

ACTION = "server.recover"
PYTHONS, RESTART = "pythons", "restart"
WELL = (Phase.READY, Phase.LOADING, Phase.STARTING)
LAUNCHERS = (" -m sglang.launch_server", "sglang serve ")
STOP, START = 60.0, 60.0  # seconds, of the container


@dataclasses.dataclass(frozen=True)
class Wish:
    """What the operator asks for beyond the default.

    including, including_host: pids to end although they are not ours, the container's and the host's.
    last: "" or the last resort, PYTHONS (every Python process of the container) or RESTART (the container itself).
    """

    including: tuple[int, ...] = ()
    including_host: tuple[int, ...] = ()
    last: str = ""


@dataclasses.dataclass(frozen=True)
class Reach:
    """Processes of the container by who may signal them. beyond: nobody, as far as is known here."""

    own: list[ProcessInfo]
    as_root: list[ProcessInfo] = dataclasses.field(default_factory=list)
    by_pct: list[ProcessInfo] = dataclasses.field(default_factory=list)
    beyond: list[ProcessInfo] = dataclasses.field(default_factory=list)

    @property
    def targets(self) -> list[ProcessInfo]:
        return [*self.own, *self.as_root, *self.by_pct]


def build(seen: Seen, profile: Profile, wish: Wish) -> Plan:
    """The plan. Raises Refused when something stands in the way that only more words of the operator would end."""
    _refuse_what_is_out_of_reach(seen, profile, wish)
    reach = _reach(seen, _inside_targets(seen.facts, wish))
    inside = reach.targets
    outside = _host_targets(seen, profile, wish)
    if reach.beyond and not (inside or outside or wish.last):
        raise _out_of_reach(seen, reach.beyond)
    thaw = _thaw(seen, inside, outside)
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
        title=f"Thaw container {_vmid(profile)}, which is frozen as a whole" if _frozen(seen) else title,
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


def _inside_targets(facts: PortFacts | None, wish: Wish) -> list[ProcessInfo]:
    if facts is None:
        if wish.including or wish.last == PYTHONS:
            raise Refused("the container can't be looked at from inside", "Name the host's pids: --including-host PID")
        return []
    strange = set(wish.including) - {process.pid for process in facts.processes}
    if strange:
        raise Refused(
            f"pid {', '.join(map(str, sorted(strange)))} does not hold port {facts.port} and is no part of a server",
            "Only what stands in the way can be included.",
        )
    chosen = [process for process in facts.processes if process.ours or process.pid in wish.including]
    if wish.last == PYTHONS:
        known = {process.pid for process in chosen}
        chosen += [process for process in facts.pythons if process.pid not in known]
    return chosen


def _host_targets(seen: Seen, profile: Profile, wish: Wish) -> list[HostProcess]:
    candidates = _candidates(seen)
    strange = set(wish.including_host) - {process.pid for process in candidates}
    if strange:
        raise Refused(
            f"pid {', '.join(map(str, sorted(strange)))} of the host does not hold the container's port",
            "Only what stands in the way can be included.",
        )
    named = [one for one in candidates if one.pid in wish.including_host]
    # a server that was only frozen goes on when it is thawed
    return named if _frozen(seen) else [one for one in candidates if one in named or _host_ours(one, profile)]


def _candidates(seen: Seen) -> list[HostProcess]:
    """Those that only the host sees: all, when there is no view from inside."""
    known = {process.pid for process in seen.facts.processes} if seen.facts else set()
    return [one for one in _of_host(seen) if one.inner not in known and (one.holds or seen.facts is None)]


def _of_host(seen: Seen) -> tuple[HostProcess, ...]:
    return seen.host.processes if seen.host else ()


def _host_ours(process: HostProcess, profile: Profile) -> bool:
    """By the host's view alone: an SGLang process in the container, ours by its environment, or dead."""
    looks_like_it = process.titled or any(words in f" {process.command} " for words in LAUNCHERS)
    return (
        process.inner is not None
        and looks_like_it
        and (process.dump_dir == profile.dump.folder or process.state == "Z")
    )


def _outside(process: HostProcess, seen: Seen, profile: Profile) -> str:
    memory = seen.memory.outside.get(process.pid, "")
    return recovery_words.outside(process, ours=_host_ours(process, profile), memory=memory)


def _frozen(seen: Seen) -> bool:
    """The container as a whole, so that nothing in it answers: a backup that broke off leaves it like that."""
    return seen.facts is None and seen.host is not None and bool(seen.host.frozen)


def _thaw(seen: Seen, inside: Iterable[ProcessInfo], outside: Iterable[HostProcess]) -> list[str]:
    """Files to write to, the one of the whole before those of its parts."""
    pids, targets = {process.pid for process in inside}, list(outside)
    files = set(seen.host.frozen) if seen.host and _frozen(seen) else set()
    for one in _of_host(seen):
        if one in targets or one.inner in pids:
            files.update(one.frozen)
    return sorted(files)


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
    held += [recovery_words.host_brief(process) for process in _candidates(seen)]
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
    words += [f"--including-host {process.pid}" for process in _candidates(seen)]
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
    lost += [f"What host pid {process.pid} is doing." for process in outside if not _host_ours(process, profile)]
    if seen.facts is None and any(_host_ours(process, profile) for process in outside):
        lost.append("The server, if it still answers: nobody could ask it from inside.")
    if wish.last == RESTART:
        lost.append(f"Everything that runs in container {_vmid(profile)}, and all of its /dev/shm.")
    return tuple(lost)


def _reach(seen: Seen, targets: list[ProcessInfo]) -> Reach:
    facts = seen.facts
    if facts is None or facts.user == "root":
        return Reach(own=targets)
    own = [one for one in targets if one.user == facts.user]
    others = [one for one in targets if one.user != facts.user]
    if facts.as_root:
        return Reach(own, as_root=others)
    return Reach(own, by_pct=others) if seen.prefix is not None else Reach(own, beyond=others)


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
        "whole": _frozen(seen),
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
