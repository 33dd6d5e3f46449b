"""A TCP proxy on loopback whose line can go silent, as when packets are dropped, or break."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """While `silent` is set nothing passes in either direction; new connections are taken but hear nothing."""

    def __init__(self, to_port: int) -> None:
        self.silent = threading.Event()
        self.connections = 0
        self._to = to_port
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for pair in self._pairs:
            for sock in pair:
                sock.close()
        self._listener.close()

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                near, _ = self._listener.accept()
                self.connections += 1
                self._pairs.append((near, socket.create_connection(("127.0.0.1", self._to))))
            self._pass_on()

    def _pass_on(self) -> None:
        """Move what waits, for a moment."""
        while not self.silent.is_set() and not self._over.is_set():
            ways = {a: b for pair in self._pairs for a, b in (pair, pair[::-1])}
            ready, _, _ = select.select([*ways, self._listener], [], [], 0.05)
            for sock in ready:
                if sock is self._listener:
                    return
                try:
                    data = sock.recv(65536)
                    if not data:
                        raise ConnectionError
                    ways[sock].sendall(data)
                except OSError:
                    self._drop(sock)
                    break

    def _drop(self, sock: socket.socket) -> None:
        for pair in [pair for pair in self._pairs if sock in pair]:
            self._pairs.remove(pair)
            for end in pair:
                end.close()


@contextlib.contextmanager
def proxy(to_port: int) -> Iterator[Proxy]:
    made = Proxy(to_port)
    try:
        yield made
    finally:
        made.close()
