"""Which processes are the server of a port, and which of them hsconsole may call its own."""

from __future__ import annotations

import dataclasses
import time
from typing import Optional

from remote import processes
from remote.processes import Process, Table
from remote.server import record as records
from remote.server.command import DUMP_DIR
from remote.server.record import Record
from remote.wire.target import Target

ENDING = 2.0  # seconds; children of a dead server end within, if they do
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


def settled(target: Target) -> Found:
    """Like `find`, but children of another server that is ending right now are no orphans: that takes a moment."""
    deadline = time.monotonic() + ENDING
    found = find(target)
    while found.parent is None and found.members and not found.ours and time.monotonic() < deadline:
        time.sleep(ENDING / 10)
        found = find(target)
    return found


def find(target: Target) -> Found:
    """Look at all processes once."""
    port = target.port
    table, record = _table(), _record(port)
    parent = _recorded(record, table)
    if parent is not None:
        members = _family(parent, table, STARTED, CHILD, ours=True)
        return Found(port, parent, _with_session(members, record, table), record)
    left = _with_session((), record, table)
    parent = _by_hand(port, table)
    if parent is not None:
        return Found(port, parent, (*_family(parent, table, BY_HAND, BY_HAND, ours=False), *left), record)
    return Found(port, None, left or _orphans(table, target.dump_dir), record)


def parent(port: int) -> Optional[Process]:
    """The process that launched the server of `port`."""
    table = _table()
    return _recorded(_record(port), table) or _by_hand(port, table)


def _table() -> Table:
    return {pid: process for pid, process in processes.table().items() if not process.gone}


def _record(port: int) -> Optional[Record]:
    """Of the last start, unless the machine was restarted since."""
    record = records.read(port)
    return record if record is not None and record.boot_id == records.boot_id() else None


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


def _orphans(table: Table, dump_dir: str) -> tuple[Member, ...]:
    """Processes titled `sglang::` that nobody is left to look after: a dead server's, of whatever port.

    One whose environment names another folder of dumps is of another profile's server.
    """
    abandoned = (p for p in table.values() if processes.is_sglang(p) and _abandoned(p, table))
    mine = (p for p in abandoned if processes.environ(p.pid).get(DUMP_DIR, dump_dir) == dump_dir)
    return tuple(Member(process, False, ORPHAN) for process in mine)


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
