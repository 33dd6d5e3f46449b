"""One POST /generate to the server on this machine, with a deadline. No proxy, no other process."""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import time
from typing import Any

from remote.server import find
from remote.server.ask import TLS
from remote.server.flags import parse
from remote.server.http import loopback, unverified
from remote.wire.errors import ServerError
from remote.wire.target import Target

CONNECT_S = 5.0
ANSWER_S = 120.0  # a first request without warm-up compiles kernels
_LIMIT = 16 << 20  # bytes of an answer; top logprobs of a thousand positions take a few hundred KB


@dataclasses.dataclass(frozen=True)
class Answer:
    """problem: why there is no good answer, empty for HTTP 200 with JSON. info: its meta_info."""

    seconds: float
    problem: str = ""
    info: dict[str, Any] = dataclasses.field(default_factory=dict)


class Generate:
    """A connection to the target's server. Raises ServerError when nothing listens there."""

    def __init__(self, target: Target) -> None:
        parent = find.parent(target.port)  # its own command line goes before what the profile says by now
        flags = {flag.name: " ".join(flag.values) for flag in parse(parent.argv if parent else target.flags)[0]}
        self.host = loopback(flags.get("--host", "127.0.0.1") if parent else target.host)
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"{'https' if TLS in flags else 'http'}://{host}:{target.port}/generate"
        self._headers = {"Content-Type": "application/json"}
        if flags.get("--api-key"):
            self._headers["Authorization"] = f"Bearer {flags['--api-key']}"
        self._connection = (
            http.client.HTTPSConnection(self.host, target.port, timeout=CONNECT_S, context=unverified())
            if TLS in flags
            else http.client.HTTPConnection(self.host, target.port, timeout=CONNECT_S)
        )
        try:
            self._connection.connect()
        except OSError as error:
            raise ServerError(
                f"no server at {self.url}: {error.strerror or error}",
                "Start the server, or wait until it is ready, then test again.",
            ) from None
        self._started = time.monotonic()

    def send(self, body: dict[str, Any]) -> None:
        """A connection that breaks here shows in `answer`."""
        self._started = time.monotonic()
        self._connection.sock.settimeout(ANSWER_S)
        try:
            self._connection.request("POST", "/generate", json.dumps(body).encode("ascii"), self._headers)
        except OSError:
            self._connection.close()

    def answer(self) -> Answer:
        """Wait for it. Closing the connection without one makes SGLang abort the request."""
        try:
            response = self._connection.getresponse()
            text = response.read(_LIMIT)
        except socket.timeout:
            return self._none(f"accepted the request, no answer in {ANSWER_S:.0f} s: it hangs")
        except (OSError, http.client.HTTPException):
            return self._none("closed the connection without an answer: look at its log")
        finally:
            self._connection.close()
        if response.status != http.client.OK:
            return self._none(_refusal(response.status, text))
        try:
            info = json.loads(text)["meta_info"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return self._none("answered HTTP 200 with something else than an answer of SGLang's /generate")
        return Answer(time.monotonic() - self._started, info=info if isinstance(info, dict) else {})

    def _none(self, problem: str) -> Answer:
        return Answer(time.monotonic() - self._started, problem)


def _refusal(status: int, text: bytes) -> str:
    reasons = {503: "not ready yet", 401: "wants an API key (--api-key in the profile's flags)"}
    return f"answered HTTP {status}: {reasons.get(status) or text[:200].decode('utf-8', 'replace')}"
