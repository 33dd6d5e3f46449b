"""Which processes are the server of a port, and which of them hsconsole may call its own."""

from __future__ import annotations

import dataclasses
from typing import Optional

from remote import processes
from remote.processes import Process, Table
from remote.server import record as records
from remote.server.record import Record

DEFAULT_PORT = "30000"  # SGLang's own
STARTED = "hsconsole started it"
CHILD = "child of the server that hsconsole started"
SESSION = "left over from the server that hsconsole started (same session)"
BY_HAND = "an SGLang server on this port that hsconsole did not start"
ORPHAN = "an SGLang process without a server, not started by hsconsole"


@dataclasses.dataclass(frozen=True)
class Member:
    """A process of the server. why: on what ground it is counted, and thought ours or not."""

    process: Process
    ours: bool
    why: str


@dataclasses.dataclass(frozen=True)
class Found:
    """parent: the process that launched the server. members: all its processes, the parent first; orphans without one.

    record: of the last start here, if it belongs to this boot of the machine.
    """

    port: int
    parent: Optional[Process]
    members: tuple[Member, ...]
    record: Optional[Record]

    @property
    def ours(self) -> bool:
        return any(member.ours for member in self.members)

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(member.process.pid for member in self.members)


def find(port: int) -> Found:
    """Look at all processes once."""
    table = {pid: process for pid, process in processes.table().items() if not process.gone}
    record = records.read(port)
    if record is not None and record.boot_id != records.boot_id():
        record = None
    parent = _recorded(record, table)
    if parent is not None:
        members = _family(parent, table, STARTED, CHILD, ours=True)
        return Found(port, parent, _with_session(members, record, table), record)
    left = _with_session((), record, table)
    parent = _by_hand(port, table)
    if parent is not None:
        return Found(port, parent, (*_family(parent, table, BY_HAND, BY_HAND, ours=False), *left), record)
    return Found(port, None, left or _orphans(table), record)


def _recorded(record: Optional[Record], table: Table) -> Optional[Process]:
    if record is None:
        return None
    process = table.get(record.pid)
    return process if process is not None and process.identity == record.identity else None


def _family(parent: Process, table: Table, why: str, child_why: str, *, ours: bool) -> tuple[Member, ...]:
    children = processes.descendants(parent.pid, table)
    return (Member(parent, ours, why), *(Member(child, ours, child_why) for child in children))


def _with_session(members: tuple[Member, ...], record: Optional[Record], table: Table) -> tuple[Member, ...]:
    """Add processes of the session that our start opened: they stay in it when their parent dies.

    The kernel gives the session's number to nobody else while one of them lives; if it was given to another since,
    that one leads a session of its own and everything in it is younger than that leader.
    """
    if record is None:
        return members
    leader = table.get(record.pid)
    if leader is not None and leader.identity != record.identity:
        return members
    known = {member.process.pid for member in members}
    left = (p for p in table.values() if p.session == record.pid and p.start_ticks >= record.start_ticks)
    return (*members, *(Member(p, True, SESSION) for p in left if p.pid not in known))


def _by_hand(port: int, table: Table) -> Optional[Process]:
    """The outermost launcher with this port on its command line."""
    for process in table.values():
        if processes.is_launcher(process) and (processes.flag_value(process, "--port") or DEFAULT_PORT) == str(port):
            parent = table.get(process.parent)
            if parent is None or not processes.is_launcher(parent):
                return process
    return None


def _orphans(table: Table) -> tuple[Member, ...]:
    """Processes titled `sglang::` that nobody is left to look after: a dead server's, of whatever port."""
    titled = (process for process in table.values() if processes.is_sglang(process))
    return tuple(Member(process, False, ORPHAN) for process in titled if _abandoned(process, table))


def _abandoned(process: Process, table: Table) -> bool:
    """Nobody above it but SGLang's own children: no launcher, and no program that uses SGLang as a library.

    The kernel gives an orphan to init or to another session's reaper, so parents count within one session only.
    """
    seen: set[int] = set()
    while process.pid not in seen:
        if processes.is_launcher(process) or not processes.is_sglang(process):
            return False
        seen.add(process.pid)
        parent = table.get(process.parent)
        if parent is None or parent.session != process.session or _is_init(parent):
            return True
        process = parent
    return True


def _is_init(process: Process) -> bool:
    return process.pid == 1 and not processes.is_python(process)
