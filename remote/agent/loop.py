"""The agent's loop: reads frames, answers calls in threads, ends with the console."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO, Callable, Optional

from remote.agent.output import Output
from remote.wire import frames
from remote.wire.codec import decode
from remote.wire.errors import ErrorReport, OperatorError, Refused, WireError
from remote.wire.target import Target

Handler = Callable[..., Any]
NewContext = Callable[[Optional[Target], Callable[[Any], None], threading.Event], Any]

SILENCE = 60.0  # seconds without a frame from the console until it is taken for gone
GRACE = 5.0  # seconds for what is under way to come to its end
ACTION_GRACE = 180.0  # seconds for an action: a stop's ladder must not be left halfway up
ACTIONS = ("run", "recover.end")  # the calls that change something


class Loop:
    """Answers the calls of one console. `serve` returns when the console has left."""

    def __init__(self, calls: dict[str, Handler], new_context: NewContext, output: Output) -> None:
        self._calls = calls
        self._new_context = new_context
        self._output = output
        self._target: Optional[Target] = None
        self._running: dict[int, threading.Event] = {}
        self._acting: set[int] = set()  # those of them that are actions
        self._changed = threading.Condition()
        self._heard = time.monotonic()

    def serve(self, source: BinaryIO) -> None:
        """Answer frames until the console closes its end, or is silent for too long."""
        threading.Thread(target=self._watch_silence, name="silence", daemon=True).start()
        for line in source:
            self._heard = time.monotonic()
            try:
                self._take(frames.parse(line))
            except (WireError, KeyError, TypeError) as error:
                sys.stderr.write(f"ignored: {error}\n")
        self._finish()

    def _take(self, frame: dict[str, Any]) -> None:
        number, name, args, cancelled = frame["id"], frame.get("call"), frame.get("args"), threading.Event()
        if frame.get("cancel"):
            self._running.get(number, cancelled).set()
            return
        if not (isinstance(number, int) and isinstance(name, str) and isinstance(args, dict)):
            raise WireError(f"neither a call nor a cancel: {sorted(frame)}")
        with self._changed:
            self._running[number] = cancelled
            if name in ACTIONS:
                self._acting.add(number)
        if name in ("ping", "open"):
            self._answer(number, name, args, cancelled)  # here and now: the heartbeat, and what later calls rest on
            return
        # each in a thread of its own: those that wait for a file system that hangs hold up nobody, least of all a stop
        thread = threading.Thread(target=self._answer, args=(number, name, args, cancelled), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            remedy = "End something there, or raise the container's limit of processes and threads."
            self._end(number, frames.error(number, OperatorError(f"{name} could not begin: {error}", remedy).report()))

    def _answer(self, number: int, name: str, args: dict[str, Any], cancelled: threading.Event) -> None:
        try:
            frame = frames.ok(number, self._result(number, name, args, cancelled))
        except OperatorError as error:
            frame = frames.error(number, error.report())
        except BaseException as error:
            traceback.print_exc()
            what = f"{name}: {type(error).__name__}: {error}"
            frame = frames.error(number, ErrorReport("agent.fault", "The agent failed", what, "Please report this."))
        self._end(number, frame)

    def _end(self, number: int, frame: bytes) -> None:
        self._output.write(frame)
        with self._changed:
            self._running.pop(number, None)
            self._acting.discard(number)
            self._changed.notify_all()

    def _result(self, number: int, name: str, args: dict[str, Any], cancelled: threading.Event) -> Any:
        if cancelled.is_set():  # nobody would see what it does
            raise Refused(f"{name} was cancelled before it began")
        if name == "open":
            self._target = decode(Target, args["target"])
            return None
        handler = self._calls.get(name)
        if handler is None:
            raise WireError(f"no call is named {name!r}")

        def emit(value: Any) -> None:
            if not cancelled.is_set():
                self._output.write(frames.event(number, value))

        return handler(self._new_context(self._target, emit, cancelled), **args)

    def _watch_silence(self) -> None:
        while time.monotonic() - self._heard < SILENCE and not self._output.broken.wait(1.0):
            pass
        self._finish()
        os._exit(0)  # the reading thread waits for a line that won't come

    def _finish(self) -> None:
        """Cancel everything and let it end: not for long, but an action for as long as it needs."""
        with self._changed:
            for event in self._running.values():
                event.set()
            self._changed.wait_for(lambda: not self._running, GRACE)
            self._changed.wait_for(lambda: not self._acting, ACTION_GRACE)
