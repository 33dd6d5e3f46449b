"""One POST /generate to the server on this machine, with a deadline. No proxy, no other process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Optional

from remote.server import answering, find
from remote.server.ask import door
from remote.server.http import unverified
from remote.wire.errors import ServerError
from remote.wire.plan import Verdict
from remote.wire.target import Target

CONNECT_S = 5.0
ANSWER_S = answering.FIRST
CANCELLED_S = 2.0  # more for one that was cancelled: an ordinary request ends within, and so leaves nothing behind
_LOOK_S = 0.1  # between looks at whether it was cancelled
_LIMIT = 16 << 20  # bytes of an answer; top logprobs of a thousand positions take a few hundred KB


@dataclasses.dataclass(frozen=True)
class Answer:
    """problem: why there is no good answer, empty for HTTP 200 with JSON. info: its meta_info.

    came: False where it was waited for in vain, None where the connection ended without one.
    told: what that says of the server, see `answering.note`.
    """

    seconds: float
    problem: str = ""
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    came: Optional[bool] = True
    told: Verdict = Verdict.UNKNOWN


class Generate:
    """A connection to the target's server. Raises ServerError when nothing listens there."""

    def __init__(self, target: Target, patience: Optional[float] = None) -> None:
        """patience: seconds to wait for an answer, ANSWER_S where none are said."""
        self._patience = ANSWER_S if patience is None else patience
        self._port = target.port
        parent = find.parent(target.port)
        self._server = parent.identity if parent else None
        host, port, key, tls = door(parent, target)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{port}/generate"
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=unverified())
            if tls
            else http.client.HTTPConnection(host, port, timeout=CONNECT_S)
        )
        try:
            self._connection.connect()
        except OSError as error:
            raise ServerError(
                f"no server at {self.url}: {error.strerror or error}",
                "Start the server, or wait until it is ready, then test again.",
            ) from None
        self._started = time.monotonic()

    def send(self, ids: Sequence[int], rid: str, **more: Any) -> None:
        """Ask for one token behind `ids`. more: of SGLang's request. A connection that breaks shows in `answer`."""
        body = {"input_ids": ids, "sampling_params": {"max_new_tokens": 1, "temperature": 0.0}, "rid": rid, **more}
        self._started = time.monotonic()
        self._connection.sock.settimeout(self._patience)
        try:
            self._connection.request("POST", "/generate", json.dumps(body).encode("ascii"), self._headers)
        except OSError:
            self._connection.close()

    def answer(self, cancelled: Optional[threading.Event] = None) -> Answer:
        """Wait for it, and note what that tells of the server.

        Closing the connection without one makes SGLang abort the request.
        """
        answer = self._answer(cancelled)
        if answer.came is None:
            return answer
        told = answering.note(self._port, self._server, answer.came, answer.seconds)
        return dataclasses.replace(answer, told=told)

    def _answer(self, cancelled: Optional[threading.Event]) -> Answer:
        end = time.monotonic() + self._patience
        self._connection.response_class = functools.partial(_response, end, cancelled)  # type: ignore[assignment]
        try:
            response = self._connection.getresponse()
            text = response.read(_LIMIT)
        except socket.timeout:
            if cancelled is not None and cancelled.is_set():
                return self._none("was not waited for any longer: cancelled", came=None)
            return self._none(f"accepted the request, no answer in {self._patience:.0f} s: it hangs", came=False)
        except (OSError, http.client.HTTPException):
            return self._none("closed the connection without an answer: look at its log", came=None)
        finally:
            self._connection.close()
        if response.status != http.client.OK:
            return self._none(_refusal(response.status, text))
        try:
            info = json.loads(text)["meta_info"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return self._none("answered HTTP 200 with something else than an answer of SGLang's /generate")
        return Answer(time.monotonic() - self._started, info=info if isinstance(info, dict) else {})

    def _none(self, problem: str, came: Optional[bool] = True) -> Answer:
        return Answer(time.monotonic() - self._started, problem, came=came)


class _Waited(io.RawIOBase):
    """The bytes of a connection, waited for until `end`, or not much longer once it is cancelled: then socket.timeout.

    Whether bytes are there is asked of the socket, not of the system: TLS sends some that are no part of an answer.
    """

    def __init__(self, sock: socket.socket, end: float, cancelled: Optional[threading.Event]) -> None:
        self._sock = sock
        self._held = sock.makefile("rb", buffering=0)  # http.client closes the socket before all is read
        self._end = end
        self._cancelled = cancelled
        sock.settimeout(_LOOK_S)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            with contextlib.suppress(socket.timeout):
                return self._sock.recv_into(buffer)
            now = time.monotonic()
            if self._cancelled is not None and self._cancelled.is_set():
                self._end, self._cancelled = min(self._end, now + CANCELLED_S), None
            if now > self._end:
                raise socket.timeout

    def close(self) -> None:
        self._held.close()
        super().close()

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self)


def _response(
    end: float, cancelled: Optional[threading.Event], sock: socket.socket, method: str
) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_Waited(sock, end, cancelled), method=method)  # type: ignore[arg-type]


def _refusal(status: int, text: bytes) -> str:
    reasons = {503: "not ready yet", 401: "wants an API key (--api-key in the profile's flags)"}
    return f"answered HTTP {status}: {reasons.get(status) or text[:200].decode('utf-8', 'replace')}"
