"""A TCP port: is it free, and if not, who listens on it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from remote import processes
from remote.processes import PROC, Process

LISTEN, TIME_WAIT = "0A", "06"
SOCKET_LINK = re.compile(r"^socket:\[(\d+)\]$")


@dataclasses.dataclass(frozen=True)
class Listener:
    """A listening socket of this network namespace. uid: of its creator."""

    address: str
    port: int
    inode: int
    uid: int


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who holds a listening socket. process: None when no process that may be read has it open.

    thread: set when only a thread of a dead process holds it, which ss and fuser don't see.
    """

    listener: Listener
    process: Optional[Process] = None
    thread: Optional[int] = None


def is_free(host: str, port: int) -> bool:
    """Could a server bind `host`:`port` now?"""
    return bind_error(host, port) is None


def bind_error(host: str, port: int) -> Optional[OSError]:
    """Why binding as uvicorn does (every address of the name, SO_REUSEADDR, IPv6 only for IPv6) fails, or None."""
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return error
    problems = [_bind_once(family, address) for family, _, _, _, address in addresses]
    # a machine without IPv6 is no reason, as long as one address can be bound
    real = [p for p in problems if p is None or p.errno not in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)]
    return next((problem for problem in real or problems if problem is not None), None)


def _bind_once(family: int, address: tuple[Any, ...]) -> Optional[OSError]:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None


def listeners(port: int) -> tuple[Listener, ...]:
    """Sockets that listen on `port`, on any address."""
    return tuple(
        Listener(_address(row.address), port, row.inode, row.uid) for row in _sockets(port) if row.state == LISTEN
    )


def lingering(port: int) -> int:
    """How many ended connections keep `port` for up to a minute more. Only those of a careless server hinder a bind."""
    return sum(row.state == TIME_WAIT for row in _sockets(port))


class _Row(NamedTuple):
    """A line of /proc/net/tcp."""

    address: str
    state: str
    uid: int
    inode: int


def _sockets(port: int) -> Iterator[_Row]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = (PROC / "self" / "net" / name).read_text(encoding="ascii", errors="replace").splitlines()
            for fields in map(str.split, lines[1:]):
                address, _, local = fields[1].partition(":")
                if int(local, 16) == port:
                    yield _Row(address, fields[3], int(fields[7]), int(fields[9]))


def _address(text: str) -> str:
    """/proc/net/tcp writes each 32-bit word of an address in the machine's own byte order."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    raw = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, raw)


def holders(port: int) -> tuple[Holder, ...]:
    """Everyone who holds a listening socket on `port`; one Holder without a process for a socket that nobody shows."""
    sockets = {listener.inode: listener for listener in listeners(port) if listener.inode}
    found: list[Holder] = []
    if sockets:
        for process in processes.table().values():
            found.extend(_held(process, sockets))
    seen = {holder.listener.inode for holder in found}
    return tuple(found) + tuple(Holder(listener) for inode, listener in sockets.items() if inode not in seen)


def _held(process: Process, sockets: dict[int, Listener]) -> Iterator[Holder]:
    folder = f"{PROC}/{process.pid}"
    for inode in _open_sockets(f"{folder}/fd") & sockets.keys():
        yield Holder(sockets[inode], process)
    if process.state != "Z" or process.threads < 2:
        return
    # the leader is dead and its fd folder empty, yet its threads keep the files open
    with contextlib.suppress(OSError):
        for task in os.listdir(f"{folder}/task"):
            inodes = _open_sockets(f"{folder}/task/{task}/fd") & sockets.keys()
            yield from (Holder(sockets[inode], process, int(task)) for inode in inodes)
            if inodes:
                return  # its threads share their files


def _open_sockets(folder: str) -> set[int]:
    inodes = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                match = SOCKET_LINK.match(os.readlink(f"{folder}/{name}"))
                if match:
                    inodes.add(int(match.group(1)))
    return inodes
