"""No thread dies with a traceback on the operator's screen, and none leaves somebody waiting for it, whatever it meets.

That a thread's own exception is an error of the test is set in pyproject.toml.
"""

from __future__ import annotations

import queue
import threading
import types
from collections.abc import Callable
from typing import Any, cast

import paramiko
import pytest

from console import client as clients
from console.cancel import Cancel
from console.channel import FrameChannel
from console.client import AgentClient
from console.config.profile import Container, Profile, Server
from console.errors import LinkLost, RemoteFault
from console.heartbeat import Heartbeat
from console.link import Link, LinkPhase
from console.ssh.bootstrap import Launched
from console.ssh.connection import Connection
from console.tui import clipboard
from remote.wire import frames
from remote.wire.host import Hello
from tests.link.listener import Listener

PATIENCE = 20.0  # seconds
NONCE = "nonce"
HELLO = Hello("0.1.0", "abc", 4242, "/usr/bin/python3", "3.12.1", "ct129", "root", 0.0)
PROFILE = Profile(name="ct", container=Container(host="ct", python="python3"), server=Server(model_path="/m"))
FAULTS = [EOFError(), OSError("broken"), paramiko.SSHException("Key-exchange timed out"), ZeroDivisionError("by us")]


class Wire:
    """An ssh channel whose other end is `answer`: what it has to say to a frame, or an exception for the sender."""

    exit_status = 0

    def __init__(self, answer: Callable[[dict[str, Any]], bytes] = lambda _: b"") -> None:
        self.out: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self.err: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self.status_event = threading.Event()
        self.status_event.set()
        self.closed = False
        self._answer = answer

    def settimeout(self, seconds: float) -> None:
        pass

    def send(self, data: bytes) -> int:
        said = self._answer(frames.parse(data))
        if said:
            self.out.put(said)
        return len(data)

    def recv(self, most: int) -> bytes:
        return self._next(self.out)

    def recv_stderr(self, most: int) -> bytes:
        return self._next(self.err)

    def close(self) -> None:
        self.closed = True

    @staticmethod
    def _next(pieces: queue.SimpleQueue[bytes | Exception]) -> bytes:
        try:
            piece = pieces.get(timeout=0.02)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(piece, Exception):
            raise piece
        return piece

    @property
    def launched(self) -> Launched:
        return Launched(cast(paramiko.Channel, self), NONCE)


def channel_of(wire: Wire) -> tuple[FrameChannel, queue.SimpleQueue[str]]:
    ends: queue.SimpleQueue[str] = queue.SimpleQueue()
    channel = FrameChannel(wire.launched, "ct", lambda _: None)
    channel.on_end = ends.put
    channel.start()
    return channel, ends


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_what_the_reader_meets_is_the_channels_end(fault: Exception) -> None:
    wire = Wire()
    channel, ends = channel_of(wire)
    wire.out.put(fault)
    assert "ct" in ends.get(timeout=PATIENCE)
    channel.close()
    assert wire.closed


def test_an_agent_that_ends_before_all_threads_run_is_told_by_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread comes to its end before the next begins, as on a machine that is busy elsewhere."""
    start = threading.Thread.start

    def start_and_wait(thread: threading.Thread) -> None:
        start(thread)
        thread.join(PATIENCE)

    monkeypatch.setattr(threading.Thread, "start", start_and_wait)
    wire = Wire()
    wire.exit_status = 9
    wire.out.put(b"")
    wire.err.put(b"no way")
    wire.err.put(b"")
    channel, ends = channel_of(wire)
    assert ends.get(timeout=PATIENCE) == "the agent on ct ended with status 9. no way"
    channel.close()


def test_a_channel_whose_threads_can_not_be_started_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    wire = Wire()
    channel = FrameChannel(wire.launched, "ct", lambda _: None)
    with pytest.raises(RuntimeError, match="new thread"):
        channel.start()
    channel.close()
    assert wire.closed


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_what_the_drainer_meets_ends_it_alone(fault: Exception) -> None:
    wire = Wire()
    channel, ends = channel_of(wire)
    wire.err.put(fault)
    channel._drainer.join(PATIENCE)
    assert not channel._drainer.is_alive()
    assert ends.empty()
    channel.close()


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_what_a_cancel_meets_is_the_channels_end(fault: Exception) -> None:
    def broken(_: dict[str, Any]) -> bytes:
        raise fault

    channel, ends = channel_of(Wire(broken))
    cancel = Cancel()
    cancel.bind(lambda: channel.send(frames.cancel(1)))
    cancel.ask()
    assert "broke" in ends.get(timeout=PATIENCE)
    channel.close()


def refuses(frame: dict[str, Any]) -> bytes:
    return frames.error(frame["id"], RemoteFault("no clock here").report())


def answers_without_sense(frame: dict[str, Any]) -> bytes:
    return frames.ok(frame["id"], {"now": "noon"})


@pytest.mark.parametrize(
    ("answer", "fault", "told"),
    [
        (refuses, None, "no clock here"),
        (answers_without_sense, None, "expected float"),
        (lambda frame: frames.ok(frame["id"], {"now": 1.0}), ZeroDivisionError("by us"), "ZeroDivisionError: by us"),
    ],
)
def test_a_heart_that_cannot_beat_loses_the_link(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[dict[str, Any]], bytes], fault: Exception | None, told: str
) -> None:
    def take(*_: float) -> None:
        if fault is not None:
            raise fault

    monkeypatch.setattr(Heartbeat, "take", take)
    closed: list[bool] = []
    wire = Wire(answer)
    wire.out.put(frames.hello(NONCE, HELLO))
    connection = types.SimpleNamespace(label="ct", close=lambda: closed.append(True))
    client = AgentClient(cast(Connection, connection), wire.launched)
    client._beating.join(PATIENCE)
    assert not client._beating.is_alive()
    assert client.lost is not None
    assert told in client.lost.what
    assert closed
    client.close()


class Faulty:
    """A client of which nothing can be asked but what it takes to find that out."""

    lost: LinkLost | None = None
    heartbeat = Heartbeat()
    hello = HELLO
    on_lost: Callable[[LinkLost], None]

    def __init__(self) -> None:
        self.closed = False

    @property
    def silence(self) -> float:
        return 1 / 0

    def close(self) -> None:
        self.closed = True


def test_a_fault_while_the_link_is_watched_is_a_lost_link(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Faulty] = []

    def start(*_: object) -> Faulty:
        made.append(Faulty())
        return made[-1]

    monkeypatch.setattr(clients, "start", start)
    monkeypatch.setattr("console.link.BACKOFF", (0.01,))
    listener = Listener()
    link = Link(PROFILE, listener.on_link)
    link.start()
    listener.wait(lambda: listener.phases.count(LinkPhase.LOST) >= 2, PATIENCE)
    link.close()
    lost = next(state for state in listener.states if state.phase is LinkPhase.LOST)
    assert "ZeroDivisionError" in lost.detail
    assert made[0].closed


@pytest.mark.parametrize("fault", FAULTS[:3], ids=repr)
def test_a_hop_that_stumbles_over_its_end_leaves_none_below_it_open(fault: Exception) -> None:
    closed: list[str] = []

    def stumble() -> None:
        closed.append("the one above")
        raise fault

    connection = Connection()
    connection._keep(lambda: closed.append("the one below"))
    connection._keep(stumble)
    connection.close()
    assert closed == ["the one above", "the one below"]


@pytest.mark.parametrize("command", ["/nonexistent/pbcopy", "/bin/false"])
def test_a_clipboard_that_fails_is_no_matter(command: str) -> None:
    clipboard._pipe(command, "text")
