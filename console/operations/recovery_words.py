"""A recovery's plan in words: who is ended and why, what is lost, what is left alone, and each line that is run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from console.config.profile import Profile
from console.operations.hostview import HostProcess
from console.operations.recovery_ways import Seen
from console.text import harmless, moment, span
from remote.wire.plan import Step
from remote.wire.recovery import PortFacts
from remote.wire.server import ProcessInfo
from remote.wire.signals import TITLES, kill, marked

THAW = "Thaw their control group, on the Proxmox host"
BY_HOST, BY_PCT, AS_ROOT = "on the Proxmox host", "as root by the Proxmox host", "as root"
RESTART_TITLES = {"stopped": "Stop the container", "running": "Start the container"}
SSHD = "Start the container's sshd again"


def steps(basis: dict[str, Any], port: int) -> Iterator[Step]:
    """The lines of `basis`, which are the ones that a run takes from it, in its order."""
    yield from (Step(THAW, line) for line in basis["thaw"])
    for title, ladder in ((BY_HOST, basis["host"]), (BY_PCT, basis["pct"])):
        yield from (Step(f"{TITLES[name]}, {title}", ladder[name]) for name in TITLES if ladder)
    for name in TITLES:
        if basis["processes"]:
            yield Step(TITLES[name], kill(name, (pid for pid, _ in basis["processes"])))
        if basis["as_root"]:
            request = shlex.join(("signal", name, *marked(basis["as_root"])))
            yield Step(f"{TITLES[name]}, {AS_ROOT}", f"{basis['sudo']} {request}")
    yield from (Step(RESTART_TITLES[wanted], line) for line, wanted in basis["restart"])
    if basis["sshd"]:
        yield Step(SSHD, basis["sshd"])
    yield Step(f"Look again: port {port} free, nothing left of a server, GPU memory back")


def inside(process: ProcessInfo, memory: str = "") -> str:
    """memory: what it holds of the GPUs, as far as that is known."""
    ground = f"ours: {process.why}" if process.ours else f"NOT ours ({process.why or 'a Python process'}), named by you"
    holds = f"; holds {', '.join(process.holds)}" if process.holds else ""
    holds += f" by its thread {process.thread} alone" if process.thread else ""
    holds += f"; holds {memory}" if memory else ""
    return f"{brief(process)}{holds} – {ground}"


def brief(process: ProcessInfo) -> str:
    """Whose it is by its control group too: a service's process may be started again by who started it."""
    command = harmless(process.command, 200)
    group = f" [{harmless(process.cgroup, 100)}]" if process.cgroup.strip("/") else ""
    who = f"pid {process.pid} of {process.user or '?'}"
    return f"{who}, {_since(process)}, state {process.state}: {command}{group}"


def outside(process: HostProcess, *, ours: bool, memory: str = "") -> str:
    holds = f"; holds {', '.join(process.holds)}" if process.holds else ""
    holds += f"; holds {memory}" if memory else ""
    return f"{host_brief(process)}{holds} – {'ours' if ours else 'NOT ours, named by you'}"


def host_brief(process: HostProcess) -> str:
    command = harmless(process.command, 200)
    where = "outside of the container" if process.inner is None else f"pid {process.inner} in the container"
    who = f"host pid {process.pid} of uid {process.uid}"
    return f"{who}, {_since(process)}, state {process.state}: {command} ({where})"


def _since(process: ProcessInfo | HostProcess) -> str:
    """By the clock of the machine that it runs on, as `ps` there has it."""
    return f"{span(process.age)} old (since {moment(process.started)})"


def notes(seen: Seen, profile: Profile, left_alone: list[ProcessInfo], beyond: list[ProcessInfo]) -> Iterator[str]:
    yield from lingering(seen.facts)
    yield from dead(seen.facts)
    yield from (f"Left alone, not ours ({one.why}): {brief(one)}" for one in left_alone)
    if seen.facts is not None:
        user, why = seen.facts.user, seen.facts.no_root
        yield from (f"Stays, as {user} may not signal it, and {why}: {brief(one)}" for one in beyond)
    if seen.way == "pct":
        yield "The container's own sshd was not the way: all this goes through the Proxmox host."
    memory = seen.memory
    if memory.in_use and memory.problem:
        yield f"GPU memory in use: {', '.join(memory.in_use)}; by which process is not known: {memory.problem}"
    elif memory.problem:
        yield f"GPU memory is not known: {memory.problem}"
    if seen.no_inside:
        yield f"Not seen from inside: {seen.no_inside}"
    if seen.no_host and profile.proxmox is not None:
        yield f"Not seen from the Proxmox host: {seen.no_host}"
    blocked = seen.facts.blocked if seen.facts else ()
    hung = [f"pid {one.pid}" for one in blocked]
    hung += [f"host pid {one.pid}" for one in (seen.host.processes if seen.host else ()) if one.waits]
    if hung:
        vmid = profile.proxmox.vmid if profile.proxmox else "VMID"
        yield (
            f"{', '.join(hung)} waits in the kernel: no signal ends that, and `pct stop {vmid}` would hang on it; "
            "then only a reboot of the host starts the container again."
        )


def lingering(facts: PortFacts | None) -> list[str]:
    if facts is None or not facts.lingering:
        return []
    return [f"{facts.lingering} ended connections linger (TIME_WAIT) for up to a minute; they hinder no start."]


def dead(facts: PortFacts | None) -> list[str]:
    return [
        f"pid {one.pid} ({harmless(one.command, 60)}) is a zombie: it holds nothing, and goes when its parent notices."
        for one in (facts.dead if facts else ())
    ]
