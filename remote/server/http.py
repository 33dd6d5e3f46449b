"""Ask the server on this machine over HTTP or HTTPS, within a deadline for the whole answer. No proxies."""

from __future__ import annotations

import dataclasses
import json
import socket
import ssl
import time
from typing import Any, Optional

LARGEST = 4 << 20  # bytes of an answer


@dataclasses.dataclass(frozen=True)
class Answer:
    """status: None without an answer. refused: nobody listens. ms: how long it took."""

    status: Optional[int]
    body: bytes = b""
    refused: bool = False
    problem: str = ""
    ms: float = 0.0

    @property
    def json(self) -> Any:
        """The body's value when it is a good answer in JSON, else None."""
        if self.status != 200:
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


def loopback(host: str) -> str:
    """The address to ask a server at that binds `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def unverified() -> ssl.SSLContext:
    """For a server of this very machine, which is known by its process: its certificate names the outside's address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def get(host: str, port: int, path: str, deadline: float = 3.0, api_key: str = "", *, tls: bool = False) -> Answer:
    """GET `path`. Never raises: what went wrong is in the answer. deadline: seconds for all of it."""
    started = time.monotonic()

    def answer(status: Optional[int], body: bytes = b"", *, refused: bool = False, problem: str = "") -> Answer:
        return Answer(status, body, refused, problem, (time.monotonic() - started) * 1000)

    try:
        with _connected(host, port, deadline, tls) as connection:
            connection.sendall(_request(host, port, path, api_key))
            data = _receive(connection, started + deadline)
    except ConnectionRefusedError:
        return answer(None, refused=True, problem="connection refused")
    except (socket.timeout, TimeoutError):
        return answer(None, problem=f"no answer within {deadline:g} s")
    except OSError as error:
        return answer(None, problem=error.strerror or str(error))
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return answer(None, problem="an answer that is not HTTP" if data else "the connection was closed unanswered")
    return answer(int(words[1]), body)


def _connected(host: str, port: int, deadline: float, tls: bool) -> socket.socket:
    plain = socket.create_connection((loopback(host), port), timeout=deadline)
    return unverified().wrap_socket(plain) if tls else plain  # which closes it when it fails


def _request(host: str, port: int, path: str, api_key: str) -> bytes:
    # HTTP/1.0: the server closes when it has answered, and never sends chunks
    lines = [f"GET {path} HTTP/1.0", f"Host: {loopback(host)}:{port}", "Accept: application/json"]
    if api_key:
        lines.append(f"Authorization: Bearer {api_key}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")


def _receive(connection: socket.socket, until: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < LARGEST:
        connection.settimeout(max(0.01, until - time.monotonic()))
        part = connection.recv(65536)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise socket.timeout
    return b"".join(parts)
