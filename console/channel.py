"""Frames over one ssh channel: read by one thread, written by any; what the agent says on stderr is kept."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console import clock
from console.errors import WireError
from remote.wire import frames

if TYPE_CHECKING:  # paramiko takes longer to import than most commands to run
    from console.ssh.bootstrap import Launched

POLL = 0.5  # seconds; how often silence is noticed
GIVEN_UP = 10.0  # seconds without a byte until the line is taken for dead
NOISE = 1 << 20  # bytes of a line before the first frame: whatever a login shell prints
LONGEST = 1 << 28  # bytes of a frame: a list of a million dumps takes less
STDERR_KEPT = 64 * 1024
LAST_WORDS = 0.5  # seconds to wait for the exit status and the rest of stderr
BLOCK = 32768


class FrameChannel:
    """on_frame and on_end are called from the channel's threads; on_end once, with the reason in words."""

    def __init__(self, launched: Launched, label: str, on_frame: Callable[[dict[str, Any]], None]) -> None:
        self._channel = launched.channel
        self._nonce = launched.nonce.encode() + b" "
        self._label = label
        self._on_frame = on_frame
        self.on_end: Callable[[str], None] = lambda _: None
        self._greeted = False
        self._ended = threading.Event()
        self._sending = threading.Lock()
        self._stderr: deque[bytes] = deque()
        self._heard = clock.now()
        self._reader = threading.Thread(target=self._read, name="agent-frames", daemon=True)
        self._drainer = threading.Thread(target=self._drain, name="agent-stderr", daemon=True)

    def start(self) -> None:
        self._channel.settimeout(POLL)
        self._drainer.start()  # first: the reader waits for its end
        self._reader.start()

    @property
    def silence(self) -> float:
        """Seconds since anything came."""
        return clock.now() - self._heard

    def send(self, frame: bytes) -> None:
        """Send all of `frame`, however slowly the other end reads; returns early when the channel has ended."""
        with self._sending:
            sent = 0
            while sent < len(frame) and not self._ended.is_set():
                try:
                    taken = self._channel.send(frame[sent : sent + BLOCK])
                except TimeoutError:
                    continue  # the reader decides when the line is dead
                except Exception:  # of paramiko's own kinds too: a line that can't be written to is no line
                    taken = 0
                if taken == 0:
                    self._end(f"the line to {self._label} broke")
                sent += taken

    def last_words(self) -> str:
        """The last line of the agent's stderr."""
        lines = b"".join(self._stderr).decode(errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else ""

    def close(self) -> None:
        """End it without calling on_end, and wait for its threads."""
        from console.ssh.exchange import quietly  # not above: paramiko is imported when a link is wanted

        self._ended.set()
        quietly(self._channel.close)
        for thread in (self._reader, self._drainer):
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(1.0)

    def _end(self, why: str) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self.on_end(why)

    def _read(self) -> None:
        try:
            self._end(self._pump())
        except Exception as error:  # a listener's, or a frame that is none: better a new link than a deaf one
            self._end(f"what came from {self._label} could not be taken: {type(error).__name__}: {error}")

    def _pump(self) -> str:
        """Take lines until there are no more; returns why."""
        buffer = bytearray()
        while not self._ended.is_set():
            try:
                data = self._channel.recv(2 * BLOCK)
            except TimeoutError:
                if self.silence > GIVEN_UP and self._greeted:
                    return f"nothing was heard from {self._label} for {GIVEN_UP:.0f} s"
                continue
            except (OSError, EOFError) as error:
                return f"the line to {self._label} broke: {error}"
            if not data:
                return self._why_it_ended()
            self._heard = clock.now()
            buffer += data
            if b"\n" in data:
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    self._take(bytes(line))
            elif len(buffer) > (LONGEST if self._greeted else NOISE):
                raise WireError(f"{len(buffer)} bytes without a line")
        return "it was closed"

    def _take(self, line: bytes) -> None:
        if not self._greeted:
            _, found, line = line.partition(self._nonce)  # what a login shell prints may share the line
            if not found:
                return
            self._greeted = True
        self._on_frame(frames.parse(line))

    def _drain(self) -> None:
        """Read stderr all the time: left alone it would fill the window that stdout shares."""
        kept = 0
        while not self._ended.is_set():
            try:
                data = self._channel.recv_stderr(2 * BLOCK)
            except TimeoutError:
                continue
            except Exception:  # the reader meets it too, and tells of it
                return
            if not data:
                return
            self._heard = clock.now()
            self._stderr.append(data)
            kept += len(data)
            while kept > STDERR_KEPT:
                kept -= len(self._stderr.popleft())

    def _why_it_ended(self) -> str:
        self._channel.status_event.wait(LAST_WORDS)
        self._drainer.join(LAST_WORDS)
        status = self._channel.exit_status
        if status < 0:
            return f"the agent on {self._label} was killed, or the line broke"
        return f"the agent on {self._label} ended with status {status}. {self.last_words()}".strip()
