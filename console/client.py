"""One live agent: numbered calls with answers, and streams of events, over one channel."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console import clock
from console.cancel import Cancel
from console.channel import GIVEN_UP, FrameChannel
from console.config.profile import Profile
from console.errors import (
    ErrorReport,
    LinkError,
    LinkLost,
    NoAnswer,
    NotAsked,
    OperatorError,
    WireError,
    as_operator_error,
    from_report,
)
from console.heartbeat import Heartbeat
from console.ssh import AskHostKey, Tell
from remote.wire import frames
from remote.wire.codec import decode
from remote.wire.host import Hello, Pong

if TYPE_CHECKING:  # paramiko takes longer to import than most commands to run
    from console.ssh.bootstrap import Launched
    from console.ssh.connection import Connection

START = 30.0  # seconds for the agent's first words
PING_EVERY = 2.0
# remedies for a lost link: of what was asked nobody knows how far it came, as the agent ends with its channel
NOT_ASKED = "Nothing was asked of the container: ask again when the link is live."
CUT_OFF = "The server needs no link. What was asked may have been cut off midway: look how things are, then ask again."

OnEvent = Callable[[Any], None]
OnEnd = Callable[[OperatorError | None], None]
Receive = Callable[[str, Any], None]


def connect(
    profile: Profile, ask_host_key: AskHostKey | None = None, on_progress: Tell = lambda _: None
) -> AgentClient:
    """A live agent for `profile`. Raises LinkError, HostKeyUnknown, HostKeyChanged, AuthenticationFailed, ConfigError.

    ask_host_key: asked once for a host that is not known; without it such a host is refused.
    """
    from console.ssh.connection import Connection

    return start(Connection(ask_host_key, on_progress), profile, on_progress)


def start(connection: Connection, profile: Profile, tell: Tell) -> AgentClient:
    """Open `connection` and start the agent over it. Closing the connection from another thread ends the attempt."""
    from console.ssh import bootstrap

    try:
        connection.open(profile.container)
        launched = bootstrap.launch(connection, profile.container.python, tell)
        client = AgentClient(connection, launched)
        client.call("open", target=profile.target)
    except BaseException:
        connection.close()
        raise
    client.renew = lambda: start(connection.anew(), profile, tell)
    return client


class Stream:
    """Events of one call, until it is closed here or ends by itself."""

    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close


class AgentClient:
    """Used from any thread. Once the line is lost, `lost` says why and every call raises NotAsked."""

    hello: Hello
    renew: Callable[[], AgentClient]
    """Another client of the same container, by the same way. Raises as `connect`."""

    def __init__(self, connection: Connection, launched: Launched) -> None:
        """Wait for the agent's first words. Raises LinkError when they don't come."""
        self._connection = connection
        self._numbers = itertools.count(1)
        self._receivers: dict[int, Receive] = {}
        self._lock = threading.Lock()
        self._greeted = threading.Event()
        self._over = threading.Event()
        self.heartbeat = Heartbeat()
        self.lost: LinkLost | None = None
        self.on_lost: Callable[[LinkLost], None] = lambda _: None
        self._beating = threading.Thread(target=self._beat, name="agent-heartbeat", daemon=True)
        self._channel = FrameChannel(launched, connection.label, self._take)
        self._channel.on_end = self._lose
        self._channel.start()
        if not self._greeted.wait(START) or self.lost:
            why = self.lost.what if self.lost else f"no word in {START:.0f} s. {self._channel.last_words()}"
            self.close()
            raise LinkError(f"the agent did not start: {why}", "Does it start by hand there?")
        self._beating.start()

    @property
    def silence(self) -> float:
        """Seconds since anything came from the agent."""
        return self._channel.silence

    def call(
        self,
        name: str,
        *,
        timeout: float = 30.0,
        on_event: OnEvent | None = None,
        cancel: Cancel | None = None,
        **args: Any,
    ) -> Any:
        """Ask and wait. `timeout` bounds the silence, in seconds: each event renews it.

        cancel: asked, it tells the agent to come to an end; what it then answers is returned all the same.

        Raises the agent's OperatorError, NoAnswer when time is up, LinkLost when the line went meanwhile.
        """
        inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        number = self._ask(name, args, lambda kind, value: inbox.put((kind, value)))
        if cancel is not None:
            cancel.bind(lambda: self._channel.send(frames.cancel(number)))
        try:
            while True:
                kind, value = inbox.get(timeout=timeout)
                if kind != "event":
                    self._forget(number, cancel=False)
                    return _answer(kind, value)
                if on_event is not None:
                    on_event(value)
        except queue.Empty:
            raise NoAnswer(f"{name}: nothing for {timeout:.0f} s", "The container may be busy; try again.") from None
        finally:
            self._forget(number, cancel=True)

    def stream(self, name: str, on_event: OnEvent, on_end: OnEnd = lambda _: None, **args: Any) -> Stream:
        """Ask for events until closed. on_end: it ended by itself, with an error or without; not after `close`.

        Both are called from the reading thread: hand over, return at once, ask nothing there.
        """

        def receive(kind: str, value: Any) -> None:
            if kind == "event":
                on_event(value)
                return
            self._forget(number, cancel=False)
            try:
                _answer(kind, value)
            except OperatorError as error:
                on_end(error)
            else:
                on_end(None)

        number = next(self._numbers)
        self._ask(name, args, receive, number)
        return Stream(lambda: self._forget(number, cancel=True))

    def close(self) -> None:
        """End the agent and the connection; leaves no thread. Calls that still wait raise LinkLost."""
        self._lose("it was closed here")
        self._channel.close()
        if self._beating.is_alive() and self._beating is not threading.current_thread():
            self._beating.join(1.0)

    def _ask(self, name: str, args: dict[str, Any], receive: Receive, number: int | None = None) -> int:
        number = next(self._numbers) if number is None else number
        with self._lock:
            if self.lost:
                raise NotAsked(self.lost.what, NOT_ASKED)
            self._receivers[number] = receive
        self._channel.send(frames.ask(number, name, args))
        return number

    def _forget(self, number: int, *, cancel: bool) -> None:
        with self._lock:
            known = self._receivers.pop(number, None) is not None
        if known and cancel:
            self._channel.send(frames.cancel(number))

    def _take(self, frame: dict[str, Any]) -> None:
        if not self._greeted.is_set():
            self.hello = decode(Hello, frame.get("hello"))
            self._greeted.set()
            return
        kind = next((kind for kind in ("event", "ok", "error") if kind in frame), None)
        if kind is None or not isinstance(frame.get("id"), int):
            raise WireError(f"a frame without number or content: {sorted(frame)}")
        receive = self._receivers.get(frame["id"])
        if receive is not None:  # else it was cancelled meanwhile
            receive(kind, frame[kind])

    def _beat(self) -> None:
        while not self._over.is_set():
            sent = clock.now()
            try:
                theirs = decode(Pong, self.call("ping", timeout=GIVEN_UP)).now
                self.heartbeat.take(sent, theirs)
            except LinkError:  # it took too long, or the line is lost
                continue
            except Exception as error:  # without a heartbeat nobody would notice a line that dies
                self._lose(as_operator_error(error).what)
                return
            self._over.wait(PING_EVERY)

    def _lose(self, why: str) -> None:
        with self._lock:
            if self.lost:
                return
            self.lost = LinkLost(why, CUT_OFF)
            receivers, self._receivers = list(self._receivers.values()), {}
        self._over.set()
        self._greeted.set()
        for receive in receivers:
            receive("lost", self.lost)
        self._connection.close()
        self.on_lost(self.lost)


def _answer(kind: str, value: Any) -> Any:
    if kind == "ok":
        return value
    if kind == "lost":
        raise LinkLost(value.what, value.remedy)
    raise from_report(decode(ErrorReport, value))
