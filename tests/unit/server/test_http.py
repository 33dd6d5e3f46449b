"""Questions over HTTP: every answer a server may give or fail to give, within the deadline."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from remote.server import ask, http
from tests.unit.server.conftest import free_port

Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    listener = socket.create_server(("127.0.0.1", 0))

    def start(answer: Callable[[socket.socket], None]) -> int:
        def once() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the asker has given up
                connection.recv(65536)
                answer(connection)

        threading.Thread(target=once, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    listener.close()


@pytest.mark.parametrize(
    ("raw", "status", "value"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, None),
        (b'HTTP/1.0 200 OK\r\n\r\n{"a": 1}', 200, {"a": 1}),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 503, None),
        (b"", None, None),
        (b"SSH-2.0-OpenSSH_9.2\r\n", None, None),
        (b"HTTP/1.1 twohundred\r\n\r\n", None, None),
        (b"HTTP/1.1 200 OK\r\n\r\n{not json", 200, None),
    ],
)
def test_answers(serve: Serve, raw: bytes, status: int | None, value: object) -> None:
    answer = http.get("127.0.0.1", serve(lambda connection: connection.sendall(raw)), "/health")
    assert (answer.status, answer.json, answer.refused) == (status, value, False)
    assert bool(answer.problem) == (status is None)


def test_nobody_listens() -> None:
    answer = http.get("0.0.0.0", free_port(), "/health")
    assert answer.refused
    assert answer.status is None


def test_silence_ends_with_the_deadline(serve: Serve) -> None:
    began = time.monotonic()
    answer = http.get("127.0.0.1", serve(lambda _: time.sleep(5)), "/health", deadline=0.3)
    assert answer.status is None
    assert "0.3 s" in answer.problem
    assert time.monotonic() - began < 2


def test_an_answer_that_drips_ends_with_the_deadline_too(serve: Serve) -> None:
    def drip(connection: socket.socket) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    began = time.monotonic()
    answer = http.get("127.0.0.1", serve(drip), "/health", deadline=0.5)
    assert answer.status is None
    assert time.monotonic() - began < 2


def test_the_key_is_sent(serve: Serve) -> None:
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def once() -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536))

    threading.Thread(target=once, daemon=True).start()
    http.get("127.0.0.1", listener.getsockname()[1], "/v1/loads", api_key="k")
    listener.close()
    assert b"Authorization: Bearer k\r\n" in asked[0]
    assert asked[0].startswith(b"GET /v1/loads HTTP/1.0\r\n")


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ({"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 3}] * 2}, (4, 6)),
        ([{"num_reqs": 5, "num_waiting_reqs": 2}], (3, 2)),
        ({"loads": [{"num_running_reqs": None, "num_waiting_reqs": "x"}]}, (0, 0)),
        ({"loads": [1]}, None),
        ("busy", None),
    ],
)
def test_counts_of_requests_are_read_as_they_come(answer: object, counts: tuple[int, int] | None) -> None:
    assert ask._counts(answer) == counts
