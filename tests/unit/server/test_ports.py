"""Ports: is it free, and who holds it (facts of a real kernel, not of a mock)."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from remote import ports, processes
from tests.living import PATIENCE
from tests.unit.server.conftest import free_port, until

LISTEN = (
    "import socket,sys; s = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(); print(1, flush=True)"
)
# ends its main thread while another lives: 'Zsl <defunct>', which ss and fuser don't see
DEAD_LEADER = f"{LISTEN}\nimport ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n" + (
    "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[__import__('os').uname().machine], 0)"
)
FORKED = f"{LISTEN}\nimport os, time\nif os.fork(): os._exit(0)\ntime.sleep(60)"


@contextlib.contextmanager
def running(script: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", script, str(port)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_a_free_port_is_free_and_has_no_holder() -> None:
    port = free_port()
    assert ports.is_free("127.0.0.1", port)
    assert ports.is_free("0.0.0.0", port)
    assert ports.is_free("", port)
    assert ports.holders(port) == ()


def test_a_listener_is_found() -> None:
    port = free_port()
    with running(f"{LISTEN}\nimport time; time.sleep(60)", port) as child:
        assert not ports.is_free("127.0.0.1", port)
        assert not ports.is_free("0.0.0.0", port)
        (holder,) = ports.holders(port)
        assert holder.process is not None
        assert (holder.process.pid, holder.thread) == (child.pid, None)
        assert (holder.listener.address, holder.listener.port) == ("127.0.0.1", port)


def test_a_listener_on_ipv6_alone_is_found() -> None:
    with socket.socket(socket.AF_INET6) as six:
        try:
            six.bind(("::", 0))
        except OSError:
            pytest.skip("no IPv6 here")
        six.listen()
        port = six.getsockname()[1]
        assert not ports.is_free("0.0.0.0", port)
        assert [holder.listener.address for holder in ports.holders(port)] == ["::"]


@pytest.mark.parametrize("reuse", [True, False])
def test_time_wait_hinders_only_after_a_server_without_reuseaddr(reuse: bool) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first goes into TIME_WAIT
        client.close()
    assert ports.is_free("127.0.0.1", port) is reuse
    assert ports.holders(port) == ()
    assert ports.lingering(port) == 1


def test_an_orphaned_child_that_inherited_the_socket_is_found() -> None:
    port = free_port()
    with running(FORKED, port) as child:
        child.wait(PATIENCE)
        (holder,) = ports.holders(port)
        assert holder.process is not None
        assert holder.process.pid != child.pid
        processes.send(holder.process.identity, signal.SIGKILL)
        until(lambda: ports.is_free("127.0.0.1", port))


def test_a_thread_of_a_dead_leader_is_found_and_not_taken_for_gone() -> None:
    port = free_port()
    with running(DEAD_LEADER, port) as child:
        until(lambda: (process := processes.read(child.pid)) is not None and process.state == "Z")
        process = processes.read(child.pid)
        assert process is not None
        assert not process.gone
        assert processes.alive(process.identity) is not None
        (holder,) = ports.holders(port)
        assert holder.process is not None
        assert holder.process.pid == child.pid
        assert holder.thread not in (None, child.pid)


def test_every_socket_of_a_dead_leader_is_found() -> None:
    """One address alone would leave the other to somebody unseen."""
    port, second = free_port(), "t = socket.socket(); t.bind(('127.0.0.2', int(sys.argv[1]))); t.listen()"
    with running(DEAD_LEADER.replace("s.listen();", f"s.listen(); {second};", 1), port) as child:
        until(lambda: (process := processes.read(child.pid)) is not None and process.state == "Z")
        found = ports.holders(port)
        assert {holder.listener.address for holder in found} == {"127.0.0.1", "127.0.0.2"}
        assert {holder.process.pid for holder in found if holder.process} == {child.pid}
        assert None not in {holder.thread for holder in found}


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_here_is_an_error_not_a_crash(host: str) -> None:
    assert ports.bind_error(host, free_port()) is not None
