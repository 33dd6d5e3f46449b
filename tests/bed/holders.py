"""Processes that hold a port as a failing SGLang server does: `python3 -m sglang.launch_server --port 8000 WAY`.

Put into the container as the module `sglang.launch_server` (and as `ipykernel_launcher`), so that command lines are
those of the real ones. A child's title is its argv[0]. Each has its pid printed when it is in place.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HUNG_FILE = Path("/mnt/hung/file")
TITLES = ("sglang::scheduler_TP0", "sglang::detokenizer")
SYS_EXIT = 60  # x86-64; ends this thread alone
WAITS, TELLS = os.pipe()


def rest() -> None:
    while True:
        time.sleep(3600)


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def named(title: str) -> None:
    Path("/proc/self/comm").write_text(title[:15])


def listen(port: int, *, six: bool = False, alone: bool = True) -> socket.socket:
    """six: on `[::]`, and, unless alone, for IPv4 too by the same socket."""
    sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if six:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(alone))
    sock.bind(("::" if six else "0.0.0.0", port))
    sock.listen(64)
    return sock


def detach() -> None:
    """Leave the session that started us, which hears our pid when we are in place."""
    pid = os.fork()
    if pid:
        os.close(TELLS)
        os.read(WAITS, 1)
        print(pid, flush=True)
        os._exit(0)
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def in_place() -> None:
    os.write(TELLS, b".")
    os.close(TELLS)


def child(title: str, keep: int | None = None) -> subprocess.Popen[bytes]:
    """A process of that title, deaf by now; keep: a descriptor that it inherits."""
    argv = [title, __file__, "--port", "0", "titled"]
    fds = () if keep is None else (keep,)
    made = subprocess.Popen(argv, executable=sys.executable, pass_fds=fds, stdout=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.read(1)
    return made


def plain(port: int) -> None:
    sock = listen(port)
    in_place()
    rest()
    sock.close()


def six(port: int) -> None:
    sock = listen(port, six=True)
    in_place()
    rest()
    sock.close()


def both(port: int) -> None:
    sock = listen(port, six=True, alone=False)
    in_place()
    rest()
    sock.close()


def stubborn(port: int) -> None:
    deaf()
    plain(port)


def titled(_: int) -> None:
    """A child by its title, deaf as a rank in a collective."""
    named(sys.orig_argv[0])
    deaf()
    os.write(1, b".")
    rest()


def orphans(port: int) -> None:
    """The parent dies; its renamed children still have the socket."""
    sock = listen(port)
    for title in TITLES:
        child(title, sock.fileno())
    die()


def spawned(port: int) -> None:
    """The parent dies; its children never had the socket."""
    sock = listen(port)
    for title in TITLES:
        child(title)
    die()
    sock.close()


def die() -> None:
    in_place()
    os.kill(os.getpid(), signal.SIGKILL)


def zombie(port: int) -> None:
    """A child held the port and was killed; its parent never waits."""
    with listen(port) as sock:
        dead = child(TITLES[0], sock.fileno())
    os.kill(dead.pid, signal.SIGKILL)
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    in_place()
    rest()


def dead_leader(port: int) -> None:
    """The main thread has ended, another one lives and keeps the files open."""
    named(TITLES[0])
    sock = listen(port)
    threading.Thread(target=rest).start()
    in_place()
    ctypes.CDLL(None).syscall(SYS_EXIT, 0)
    sock.close()


def hung(port: int) -> None:
    """Waits in the kernel for an answer that does not come."""
    named(TITLES[0])
    sock = listen(port)
    in_place()
    read_hung_file()
    sock.close()


def hung_thread(port: int) -> None:
    """As `hung`, but in a thread of its own: after SIGKILL the leader is dead and that thread still waits."""
    named(TITLES[0])
    sock = listen(port)
    threading.Thread(target=read_hung_file).start()
    in_place()
    rest()
    sock.close()


def read_hung_file() -> None:
    HUNG_FILE.read_bytes()


def time_wait(port: int) -> None:
    """A server that closes first leaves its side of the connection behind."""
    sock = listen(port)
    client = socket.create_connection(("127.0.0.1", port))
    server, _ = sock.accept()
    server.close()
    client.close()
    sock.close()


WAYS = {
    function.__name__: function
    for function in (
        *(plain, six, both, stubborn, titled, orphans, spawned, zombie),
        *(dead_leader, hung, hung_thread, time_wait),
    )
}


def main(words: list[str]) -> None:
    port, way = int(words[words.index("--port") + 1]), words[-1]
    if way not in ("titled", "time_wait"):
        detach()
    WAYS[way](port)


if __name__ == "__main__":
    main(sys.argv)
