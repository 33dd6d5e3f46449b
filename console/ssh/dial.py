"""Reaching a hop's sshd: a TCP connection, a ProxyCommand's pipe, or a channel through the hop before."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import subprocess
import tempfile
import threading
import time

import paramiko

from console.errors import LinkError
from console.ssh.route import Hop

CONNECT = 4.0  # seconds; short, so that a line that is back is found soon
CHANNEL = 10.0
SLICE = 0.2  # how often a cancelled attempt is noticed
SILENT = 10  # seconds until the kernel takes a silent line for dead, whatever waits for an answer over it
# by name, since not every system has each: probes after that many quiet seconds, and how many of them may be lost
PROBES = {
    "TCP_KEEPIDLE": 4,
    "TCP_KEEPALIVE": 4,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": SILENT * 1000,
}

CAUSES = {
    errno.ECONNREFUSED: "connection refused: nothing listens there",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.EAFNOSUPPORT: "this machine can't reach an address of that kind",
    errno.ETIMEDOUT: f"no answer within {CONNECT:.0f} s",
}


class Cancelled(Exception):
    """The attempt was given up from outside."""


def tcp(hop: Hop, cancelled: threading.Event) -> socket.socket:
    """A connected socket, trying every address of the name. Raises LinkError by cause, or Cancelled."""
    try:
        addresses = socket.getaddrinfo(hop.host, hop.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise LinkError(
            f"the name {hop.host} can't be resolved: {what}", "Is it a name of ~/.ssh/config, or an address?"
        ) from None
    cause = 0
    for family, kind, protocol, _, address in addresses:
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:  # a machine without IPv6
            cause = error.errno or 0
            continue
        cause = _connect(sock, address, cancelled)
        if cause == 0:
            _attend(sock)
            return sock
        sock.close()
    raise LinkError(f"{hop.host}:{hop.port}: {CAUSES.get(cause) or errno.errorcode.get(cause, cause)}", _advice(cause))


def _connect(sock: socket.socket, address: object, cancelled: threading.Event) -> int:
    """0, or the errno of what went wrong."""
    sock.setblocking(False)
    status = sock.connect_ex(address)  # type: ignore[arg-type]  # as getaddrinfo gave it
    deadline = time.monotonic() + CONNECT
    while status == errno.EINPROGRESS:
        if cancelled.is_set():
            sock.close()
            raise Cancelled
        if time.monotonic() > deadline:
            return errno.ETIMEDOUT
        if select.select([], [sock], [], SLICE)[1]:
            status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return status


def _attend(sock: socket.socket) -> None:
    """Send at once, and notice a line that has gone silent."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _advice(cause: int) -> str:
    if cause == errno.ECONNREFUSED:
        return "Is sshd running there, and is the port right?"
    return "Is the host up, and this network the right one?"


def through(transport: paramiko.Transport, hop: Hop) -> paramiko.Channel:
    """A channel to `hop` through the host before it."""
    try:
        return transport.open_channel("direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=CHANNEL)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise LinkError(f"the jump host can't reach {hop.host}:{hop.port}: {error}", "Try it from there.") from None


class ProxyCommand:
    """A ProxyCommand's process and the socket that is its stdin and stdout."""

    def __init__(self, command: str) -> None:
        self.socket, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(  # by a shell, as ssh does
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=self._errors,
            start_new_session=True,  # an operator's ^C is not for it
        )
        theirs.close()

    def told(self) -> str:
        """The last of what it wrote to stderr."""
        with contextlib.suppress(ValueError):
            self._errors.seek(0)
            return self._errors.read()[-500:].decode(errors="replace").strip()
        return ""

    def close(self) -> None:
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
