"""Questions over HTTP: every answer a server may give or fail to give, within the deadline."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from remote import processes
from remote.dumps import generate
from remote.dumps.generate import Generate
from remote.server import ask, find, http
from remote.wire.target import Target
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
    answer = http.get("127.0.0.1", serve(lambda _: time.sleep(60)), "/health", deadline=0.3)
    assert answer.status is None
    assert "0.3 s" in answer.problem
    assert time.monotonic() - began < 30


def test_an_answer_that_drips_ends_with_the_deadline_too(serve: Serve) -> None:
    def drip(connection: socket.socket) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    began = time.monotonic()
    answer = http.get("127.0.0.1", serve(drip), "/health", deadline=0.5)
    assert answer.status is None
    assert time.monotonic() - began < 30


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


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of another name than the address it is asked at, and signed by nobody."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "elsewhere.example")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "both.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def https(certificate: Path) -> Iterator[int]:
    """A server that answers 200 to what it is asked by TLS, as SGLang does with --ssl-certfile; its port.

    Who sends the id 9 waits until the end.
    """
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def do_POST(self) -> None:
            if b"[9]" in self.rfile.read(int(self.headers["Content-Length"])):
                over.wait()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"meta_info": {"id": "x"}}')

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # as its server for HTTP/2 wants it
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    over.set()
    server.shutdown()
    server.server_close()


def test_a_server_with_a_certificate_is_asked_by_tls(https: int) -> None:
    assert http.get("127.0.0.1", https, "/health", tls=True).status == 200
    assert http.get("127.0.0.1", https, "/health").status is None


def test_tls_to_a_server_without_is_a_problem_in_words(serve: Serve) -> None:
    answer = http.get("127.0.0.1", serve(lambda c: c.sendall(b"HTTP/1.1 400 x\r\n\r\n")), "/health", tls=True)
    assert (answer.status, bool(answer.problem)) == (None, True)


def test_tls_that_is_never_answered_keeps_the_deadline(serve: Serve) -> None:
    began = time.monotonic()
    answer = http.get("127.0.0.1", serve(lambda _: time.sleep(60)), "/health", 0.5, tls=True)
    assert "no answer within" in answer.problem
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("flag", ["--ssl-certfile /x.pem", "--ssl-certfile=/x.pem", "--ssl-certfile"])
def test_requests_go_by_tls_too(https: int, flag: str) -> None:
    server = Generate(Target("/p", "/m", "127.0.0.1", https, flags=(flag, "/x.pem")))
    assert server.url.startswith("https://")
    server.send([1], "rid")
    assert server.answer().info == {"id": "x"}


def test_one_that_goes_by_tls_is_cut_off_too(https: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever TLS itself sends meanwhile is no answer that has begun."""
    monkeypatch.setattr(generate, "CANCELLED_S", 0.3)
    server = Generate(Target("/p", "/m", "127.0.0.1", https, flags=("--ssl-certfile", "/x.pem")), 60.0)
    server.send([9], "rid")
    cancelled = threading.Event()
    cancelled.set()
    answer = server.answer(cancelled)
    assert answer.problem.endswith("cancelled")
    assert answer.seconds < 30


def test_requests_go_as_the_running_server_wants_them_whatever_the_profile_says(
    https: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = processes.read(os.getpid())
    assert mine is not None
    argv = ("python", "-m", "sglang.launch_server", "--port", str(https), "--ssl-certfile", "/x.pem")
    monkeypatch.setattr(find, "parent", lambda _: dataclasses.replace(mine, argv=argv))
    server = Generate(Target("/p", "/m", "elsewhere.example", https))
    server.send([1], "rid")
    assert (server.url, server.answer().problem) == (f"https://127.0.0.1:{https}/generate", "")


def test_the_running_servers_command_line_tells_that_it_has_a_certificate() -> None:
    mine = processes.read(os.getpid())
    assert mine is not None
    target = Target("/p", "/m", port=1)
    for argv, tls in ((("python", "--ssl-certfile", "/x"), True), (("python", "--ssl-certfile=/x"), True), ((), False)):
        assert ask.Server(dataclasses.replace(mine, argv=argv), target).door.tls is tls
