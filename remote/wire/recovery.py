"""What stands between a port and a good start, as the container sees it."""

from __future__ import annotations

import dataclasses

from .server import Phase, ProcessInfo


@dataclasses.dataclass(frozen=True)
class PortFacts:
    """Taken at once, by the call `recover.facts`.

    phase, detail: of the server, as ServerState has them.
    processes: all that hold the port, or are a server of it, or are left of one. ours: the default action ends it.
    unseen: addresses of the port that somebody listens on who can't be seen from here.
    lingering: ended connections that the kernel keeps for up to a minute; they hinder no server.
    dead: ended processes that wait for their parent to notice; they hold nothing, and no signal reaches them.
    bind_problem: why the port can't be bound now; empty when it can.
    losses: what ending the server costs.
    pythons: every Python process of the container but the agent: what the last resort ends.
    blocked: processes with a thread that waits in the kernel (state D): no signal ends them, and no `pct stop`.
    user: who looks. as_root: the command by which that user acts for root, less its last words; empty when it is root
    or can't. no_root: why it can't.
    namespace: of the pids here, as the kernel names it: by this the Proxmox host knows whose container it is.
    """

    at: float
    port: int
    phase: Phase
    detail: str
    processes: tuple[ProcessInfo, ...] = ()
    unseen: tuple[str, ...] = ()
    lingering: int = 0
    dead: tuple[ProcessInfo, ...] = ()
    bind_problem: str = ""
    losses: tuple[str, ...] = ()
    pythons: tuple[ProcessInfo, ...] = ()
    blocked: tuple[ProcessInfo, ...] = ()
    user: str = ""
    as_root: str = ""
    no_root: str = ""
    namespace: str = ""
