"""What goes over one channel: a request that must be answered in time, a command from its stdin to its end."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator

import paramiko

LARGEST_OUTPUT = 1 << 20  # bytes
LAST_OUTPUT = 1.0  # seconds to wait for more once the command has ended


@dataclasses.dataclass(frozen=True)
class Ran:
    """A command that ended. status: -1 when it was killed by a signal, or the line broke."""

    status: int
    out: bytes
    err: bytes


def quietly(closer: Callable[[], object]) -> None:
    """Close something, also where the line is broken already: paramiko would raise then."""
    with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
        closer()


@contextlib.contextmanager
def answered(channel: paramiko.Channel, seconds: float) -> Iterator[None]:
    """Bound a request that asks for an answer: paramiko would wait for it for ever. Raises TimeoutError."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        quietly(channel.close)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (paramiko.SSHException, EOFError):
        if late.is_set():
            raise TimeoutError(f"no answer within {seconds:.0f} s") from None
        raise
    finally:
        timer.cancel()


def converse(channel: paramiko.Channel, stdin: bytes, deadline: float) -> Ran:
    """Feed stdin and drain both outputs until the command ends; one thread, no deadlock.

    deadline: monotonic seconds. Raises TimeoutError when it is past, and what paramiko raises for a line that broke.
    """
    out, err = bytearray(), bytearray()
    left = stdin
    closed = False
    over = 0.0
    while True:
        moved = False
        if left and channel.send_ready():
            left = _feed(channel, left)
            moved = True
        if not left and not closed:
            channel.shutdown_write()
            closed = True
        for ready, receive, into in (
            (channel.recv_ready, channel.recv, out),
            (channel.recv_stderr_ready, channel.recv_stderr, err),
        ):
            while ready():
                moved = True
                into += receive(65536)[: LARGEST_OUTPUT - len(into)]
        if moved:
            continue
        if channel.exit_status >= 0 or channel.closed:
            over = over or time.monotonic() + LAST_OUTPUT
            if channel.eof_received or time.monotonic() > over:  # a child that lives on may keep the pipe
                return Ran(channel.exit_status, bytes(out), bytes(err))
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def _feed(channel: paramiko.Channel, left: bytes) -> bytes:
    """What is left after some was sent: nothing when the command has ended, whose own words then count."""
    try:
        return left[channel.send(left[:32768]) :]
    except OSError:
        return b""
