"""From what was seen to the plan of a recovery: whom it ends and why, whom it leaves alone, and what it can't do.

Pure: facts in, plan out. Ended by default is only what is ours; anybody else must be named by the operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from console.config.profile import Profile
from console.errors import Refused
from console.operations.hostview import HostProcess
from console.operations.recovery_ways import Seen, sshd_command
from console.text import harmless, span
from remote.wire.plan import Plan, Step
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo

ACTION = "server.recover"
PYTHONS, RESTART = "pythons", "restart"
WELL = (Phase.READY, Phase.LOADING, Phase.STARTING)
LAUNCHERS = (" -m sglang.launch_server", "sglang serve ")


@dataclasses.dataclass(frozen=True)
class Wish:
    """What the operator asks for beyond the default.

    including, including_host: pids to end although they are not ours, the container's and the host's.
    last: "" or the last resort, PYTHONS (every Python process of the container) or RESTART (the container itself).
    """

    including: tuple[int, ...] = ()
    including_host: tuple[int, ...] = ()
    last: str = ""


def build(seen: Seen, profile: Profile, wish: Wish) -> Plan:
    """The plan. Raises Refused when something stands in the way that only more words of the operator would end."""
    inside = _inside_targets(seen.facts, wish)
    outside = _host_targets(seen, profile, wish)
    thaw = sorted({one.frozen for one in _of_host(seen) if one.frozen and _is_target(one, inside, outside)})
    busy = _works(seen.facts) and not (wish.including or wish.last)
    needed = bool(inside or outside or thaw or seen.sshd_dead or wish.last) and not busy
    if not needed:
        return _nothing(seen, profile, busy=busy)
    steps = (
        *(Step(_line(process)) for process in inside),
        *(Step(_host_line(process, profile)) for process in outside),
        *_steps(inside, outside, thaw, seen, profile, wish),
    )
    return Plan(
        action=ACTION,
        title=f"Free port {profile.server.port} and clear what a dead server left",
        needed=True,
        steps=steps,
        losses=_losses(seen, inside, outside, profile, wish),
        notes=_notes(seen, profile, wish),
        basis=_basis(seen, profile, inside, outside, thaw, wish),
        word={PYTHONS: "kill every python", RESTART: f"restart {_vmid(profile)}"}.get(wish.last, ""),
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
    return [one for one in candidates if one.pid in wish.including_host or _host_ours(one, profile)]


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


def _is_target(one: HostProcess, inside: Iterable[ProcessInfo], outside: Iterable[HostProcess]) -> bool:
    return one in outside or one.inner in {process.pid for process in inside}


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
        return Plan(ACTION, f"The server on port {port} is {facts.phase.value}", needed=False, notes=(note,))
    held = [_brief(process) for process in facts.processes] if facts else []
    held += [f"{_host_brief(process)} ({_where(process)})" for process in _candidates(seen)]
    unseen = facts.unseen if facts else ()
    if held or unseen or (facts is not None and facts.bind_problem):
        raise _refusal(seen, profile, held)
    notes = tuple(_lingering(facts)) + tuple(_dead(facts))
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


def _line(process: ProcessInfo) -> str:
    ground = f"ours: {process.why}" if process.ours else f"NOT ours ({process.why or 'a Python process'}), named by you"
    holds = f"; holds {', '.join(process.holds)}" if process.holds else ""
    holds += f" by its thread {process.thread} alone" if process.thread else ""
    return f"{_brief(process)}{holds} – {ground}"


def _brief(process: ProcessInfo) -> str:
    command = harmless(process.command, 200)
    return f"pid {process.pid} of {process.user or '?'}, {span(process.age)} old, state {process.state}: {command}"


def _host_brief(process: HostProcess) -> str:
    command = harmless(process.command, 200)
    return f"host pid {process.pid} of uid {process.uid}, {span(process.age)} old, state {process.state}: {command}"


def _host_line(process: HostProcess, profile: Profile) -> str:
    ours = _host_ours(process, profile)
    holds = f"; holds {', '.join(process.holds)}" if process.holds else ""
    return f"{_host_brief(process)} ({_where(process)}){holds} – {'ours' if ours else 'NOT ours, named by you'}"


def _where(process: HostProcess) -> str:
    return "outside of the container" if process.inner is None else f"pid {process.inner} in the container"


def _steps(
    inside: list[ProcessInfo],
    outside: list[HostProcess],
    thaw: list[str],
    seen: Seen,
    profile: Profile,
    wish: Wish,
) -> tuple[Step, ...]:
    steps = [Step("Thaw their control group, on the Proxmox host", f"echo THAWED > {path}") for path in thaw]
    if outside:
        pids = " ".join(str(process.pid) for process in outside)
        steps.append(Step("End them from the Proxmox host", f"kill -TERM {pids}; kill -KILL {pids}"))
    if inside:
        pids = " ".join(str(process.pid) for process in inside)
        steps.append(Step("Ask them to end", f"kill -TERM {pids}"))
        steps.append(Step("Kill what is left", f"kill -KILL {pids}"))
        if _powerless(seen, profile):
            by_host = f"pct exec {_vmid(profile)} --keep-env=0 -- kill -KILL {pids}"
            steps.append(Step("Who can't be signalled from here: through the Proxmox host", by_host))
    if wish.last == RESTART:
        steps.append(Step("Restart the container", f"pct stop {_vmid(profile)}; pct start {_vmid(profile)}"))
    elif seen.sshd_dead:
        steps.append(Step("Start the container's sshd again", sshd_command(profile)))
    steps.append(Step(f"Look again: port {profile.server.port} free, nothing left of a server, GPU memory back"))
    return tuple(steps)


def _losses(
    seen: Seen, inside: list[ProcessInfo], outside: list[HostProcess], profile: Profile, wish: Wish
) -> tuple[str, ...]:
    lost = list(seen.facts.losses) if seen.facts else []
    if any(process.ours for process in inside):
        lost.append("Requests under way and dumps not finished.")
    lost += [f"What pid {process.pid} is doing: it is not ours." for process in inside if not process.ours]
    lost += [f"What host pid {process.pid} is doing." for process in outside if not _host_ours(process, profile)]
    if wish.last == RESTART:
        lost.append(f"Everything that runs in container {_vmid(profile)}, and all of its /dev/shm.")
    return tuple(lost)


def _notes(seen: Seen, profile: Profile, wish: Wish) -> tuple[str, ...]:
    facts = seen.facts
    notes = [*_lingering(facts), *_dead(facts)]
    if facts is not None:
        left_alone = [one for one in facts.processes if not one.ours and one.pid not in wish.including]
        if wish.last != PYTHONS:
            notes += [f"Left alone, not ours ({one.why}): {_brief(one)}" for one in left_alone]
    if seen.way == "pct":
        notes.append("The container's own sshd was not the way: all this goes through the Proxmox host.")
    if seen.no_inside:
        notes.append(f"Not seen from inside: {seen.no_inside}")
    blocked = facts.blocked if facts else ()
    hung = [f"pid {one.pid}" for one in blocked] + [f"host pid {one.pid}" for one in _of_host(seen) if one.waits]
    if hung:
        who = ", ".join(hung)
        notes.append(
            f"{who} waits in the kernel: no signal ends that, and `pct stop {_vmid(profile)}` would hang on it."
        )
    return tuple(notes)


def _lingering(facts: PortFacts | None) -> list[str]:
    if facts is None or not facts.lingering:
        return []
    return [f"{facts.lingering} ended connections linger (TIME_WAIT) for up to a minute; they hinder no start."]


def _dead(facts: PortFacts | None) -> list[str]:
    return [
        f"pid {one.pid} ({harmless(one.command, 60)}) is a zombie: it holds nothing, and goes when its parent notices."
        for one in (facts.dead if facts else ())
    ]


def _basis(
    seen: Seen,
    profile: Profile,
    inside: list[ProcessInfo],
    outside: list[HostProcess],
    thaw: list[str],
    wish: Wish,
) -> dict[str, Any]:
    known = seen.facts.processes if seen.facts else ()
    return {
        "processes": [[process.pid, process.start_ticks] for process in inside],
        "known": [[process.pid, process.start_ticks] for process in known],
        "host": [[process.pid, process.start_ticks] for process in outside],
        "thaw": thaw,
        "sshd": seen.sshd_dead,
        "last": wish.last,
        "by_pct": bool(inside) and _powerless(seen, profile),
    }


def _powerless(seen: Seen, profile: Profile) -> bool:
    """Who looks from inside may not signal everybody, and the Proxmox host may."""
    facts = seen.facts
    return facts is not None and facts.user != "root" and not facts.as_root and profile.proxmox is not None


def _vmid(profile: Profile) -> str:
    return str(profile.proxmox.vmid) if profile.proxmox else "VMID"
