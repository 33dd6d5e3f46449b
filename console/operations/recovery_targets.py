"""Whom a recovery ends: of the container's processes and of the host's, and who of us may signal them.

Pure: facts in, processes out. By default only what is ours; anybody else must be named by the operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from console.config.profile import Profile
from console.errors import Refused
from console.operations.hostview import HostProcess
from console.operations.recovery_ways import Seen
from console.operations.recovery_wish import PYTHONS, Wish
from remote.wire.recovery import PortFacts
from remote.wire.server import ProcessInfo

LAUNCHERS = (" -m sglang.launch_server", "sglang serve ")


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


def of_container(facts: PortFacts | None, wish: Wish) -> list[ProcessInfo]:
    """Whom a look from inside finds to end. Raises Refused for a pid that does not stand in the way."""
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


def of_host(seen: Seen, profile: Profile, wish: Wish) -> list[HostProcess]:
    """Whom only the host's look finds to end. Raises Refused for a pid that does not stand in the way."""
    there = candidates(seen)
    strange = set(wish.including_host) - {process.pid for process in there}
    if strange:
        raise Refused(
            f"pid {', '.join(map(str, sorted(strange)))} of the host does not hold the container's port",
            "Only what stands in the way can be included.",
        )
    named = [one for one in there if one.pid in wish.including_host]
    # a server that was only frozen goes on when it is thawed
    return named if wholly_frozen(seen) else [one for one in there if one in named or ours_by_host(one, profile)]


def candidates(seen: Seen) -> list[HostProcess]:
    """Those that only the host sees: all, when there is no view from inside."""
    known = {process.pid for process in seen.facts.processes} if seen.facts else set()
    return [one for one in _seen_by_host(seen) if one.inner not in known and (one.holds or seen.facts is None)]


def _seen_by_host(seen: Seen) -> tuple[HostProcess, ...]:
    return seen.host.processes if seen.host else ()


def ours_by_host(process: HostProcess, profile: Profile) -> bool:
    """By the host's view alone: an SGLang process in the container, ours by its environment, or dead."""
    looks_like_it = process.titled or any(words in f" {process.command} " for words in LAUNCHERS)
    return (
        process.inner is not None
        and looks_like_it
        and (process.dump_dir == profile.dump.folder or process.state == "Z")
    )


def wholly_frozen(seen: Seen) -> bool:
    """The container as a whole, so that nothing in it answers: a backup that broke off leaves it like that."""
    return seen.facts is None and seen.host is not None and bool(seen.host.frozen)


def frozen_files(seen: Seen, inside: Iterable[ProcessInfo], outside: Iterable[HostProcess]) -> list[str]:
    """What is to be written to so that they thaw, the file of the whole before those of its parts."""
    pids, targets = {process.pid for process in inside}, list(outside)
    files = set(seen.host.frozen) if seen.host and wholly_frozen(seen) else set()
    for one in _seen_by_host(seen):
        if one in targets or one.inner in pids:
            files.update(one.frozen)
    return sorted(files)


def reach(seen: Seen, targets: list[ProcessInfo]) -> Reach:
    """The user of the link for its own, root for all: by sudo in the container, else by `pct exec` on the host."""
    facts = seen.facts
    if facts is None or facts.user == "root":
        return Reach(own=targets)
    own = [one for one in targets if one.user == facts.user]
    others = [one for one in targets if one.user != facts.user]
    if facts.as_root:
        return Reach(own, as_root=others)
    return Reach(own, by_pct=others) if seen.prefix is not None else Reach(own, beyond=others)
