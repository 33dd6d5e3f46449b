"""What stands between a port and a good start: who holds it, who is left of a server, and who of them is ours."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import time
from typing import Optional

from remote import elevated, ports, processes
from remote.ports import Listener
from remote.processes import Process
from remote.server import find, probe, state, stop
from remote.server.command import DUMP_DIR
from remote.wire.errors import ServerError
from remote.wire.plan import Verdict
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from remote.wire.target import Target

BY_ENVIRONMENT = "an SGLang process with this profile's dump folder in its environment"
BY_TITLE = "titled sglang:: and its server is gone"
BY_DEATH = "an SGLang process whose main thread is dead"
NOT_SGLANG = "no SGLang process"
NOT_OURS = "an SGLang process that hsconsole did not start"


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A process that stands in the way. dump_dir: of its environment, as far as that can be read."""

    process: Process
    ours: bool
    why: str
    holds: tuple[str, ...] = ()
    thread: Optional[int] = None

    @property
    def info(self) -> ProcessInfo:
        return processes.info(self.process, ours=self.ours, why=self.why, holds=self.holds, thread=self.thread)


@dataclasses.dataclass
class Held:
    """What one process holds of the port."""

    process: Process
    holds: tuple[str, ...]
    thread: Optional[int]
    dump_dir: str


def look(target: Target) -> tuple[tuple[Suspect, ...], tuple[str, ...]]:
    """Everybody in the way, and the addresses that somebody unseen listens on."""
    found = find.find(target)
    held, unseen = _held(target.port)
    suspects = {}
    for member in found.members:
        own = held.pop(member.process.pid, None) or Held(member.process, (), None, _dump_dir(member.process.pid))
        ours, why = _judge(member.process, own.dump_dir, target, member.ours, member.why)
        suspects[member.process.pid] = Suspect(member.process, ours, why, own.holds, own.thread)
    for pid, own in held.items():
        ours, why = _judge(own.process, own.dump_dir, target)
        suspects[pid] = Suspect(own.process, ours, why, own.holds, own.thread)
    return tuple(suspects.values()), unseen


def facts(target: Target) -> PortFacts:
    """All of it. Takes a few seconds when the server hangs, and longer when only what is behind its /health does."""
    seen, detail = state.read(target), ""
    if seen.phase is Phase.READY:
        asked = probe.ask_for_a_token(target)
        seen, detail = (state.read(target) if asked.verdict is Verdict.BAD else seen), f"; {asked.found}"
    suspects, unseen = look(target)
    error = ports.bind_error(target.host, target.port)
    table = processes.table()
    root = os.geteuid() == 0
    no_root = elevated.problem()
    return PortFacts(
        at=time.time(),
        port=target.port,
        phase=seen.phase,
        detail=seen.detail + detail,
        processes=tuple(suspect.info for suspect in suspects),
        unseen=unseen,
        lingering=ports.lingering(target.port),
        dead=tuple(processes.info(p) for p in table.values() if p.gone and p.name.startswith(processes.TITLE)),
        bind_problem=(error.strerror or str(error)) if error else "",
        losses=stop.losses(find.find(target), target),
        pythons=tuple(processes.info(process) for process in pythons(table)),
        blocked=tuple(processes.info(process) for process in table.values() if blocked_in(process.pid)),
        user=processes.user(os.getpid()),
        as_root="" if root or no_root else shlex.join(elevated.command()),
        no_root=no_root,
        namespace=processes.namespace("pid"),
    )


def pythons(table: processes.Table) -> list[Process]:
    """Every Python process but this agent and what it descends from."""
    spared, pid = set(), os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid].parent
    wanted = (p for p in table.values() if processes.is_python(p) or processes.is_sglang(p))
    return [process for process in wanted if process.pid not in spared and process.pid != 1]


def blocked_in(pid: int) -> str:
    """The kernel function that a thread of `pid` waits in without listening to signals; empty when none does."""
    folder = f"{processes.PROC}/{pid}/task"
    with contextlib.suppress(OSError):
        for task in os.listdir(folder):
            with contextlib.suppress(OSError, IndexError), open(f"{folder}/{task}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] == b"D":
                    return _wait_channel(f"{folder}/{task}/wchan")
    return ""


def _wait_channel(path: str) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        word = file.read().decode("ascii", "replace")
        return word if word not in ("", "0") else "the kernel"
    return "the kernel"


def _held(port: int) -> tuple[dict[int, Held], tuple[str, ...]]:
    """By pid, what it holds of `port`; and the addresses of sockets that nobody visible holds."""
    held: dict[int, Held] = {}
    unseen: dict[int, Listener] = {}
    for holder in ports.holders(port):
        if holder.process is None:
            unseen[holder.listener.inode] = holder.listener
        else:
            _add(held, holder.process, holder.listener, holder.thread, _dump_dir(holder.process.pid))
    if unseen and os.geteuid() != 0 and not elevated.problem():
        with contextlib.suppress(ServerError):
            seen = set()
            for opened in elevated.opened(port, DUMP_DIR):
                process = processes.read(opened.pid)
                if process is not None and opened.inode in unseen:
                    seen.add(opened.inode)
                    _add(held, process, unseen[opened.inode], opened.thread, opened.dump_dir)
            unseen = {inode: listener for inode, listener in unseen.items() if inode not in seen}
    return held, tuple(map(_address, unseen.values()))


def _add(held: dict[int, Held], process: Process, listener: Listener, thread: Optional[int], dump_dir: str) -> None:
    own = held.setdefault(process.pid, Held(process, (), thread, dump_dir))
    own.holds = (*own.holds, _address(listener))


def _address(listener: Listener) -> str:
    host = f"[{listener.address}]" if ":" in listener.address else listener.address
    return f"{host}:{listener.port}"


def _dump_dir(pid: int) -> str:
    return processes.environ(pid).get(DUMP_DIR, "")


def _judge(process: Process, dump_dir: str, target: Target, on_record: bool = False, why: str = "") -> tuple[bool, str]:
    """Ours, and on what ground: the record of a start, the environment, or the title of what a dead server left."""
    if on_record:
        return True, why
    looks_like_it = processes.is_sglang(process) or process.name.startswith(processes.TITLE)
    if looks_like_it and dump_dir == target.dump_dir:
        return True, BY_ENVIRONMENT
    if why == find.ORPHAN:
        return True, BY_TITLE
    if looks_like_it and process.state == "Z":
        return True, BY_DEATH
    if looks_like_it:
        return False, why or NOT_OURS
    return False, why or NOT_SGLANG
