"""One connection to a host, over however many jumps: each hop's key verified, then logged in to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable

import paramiko

from console.config.profile import Login
from console.errors import HostKeyUnknown, LinkError
from console.ssh import AskHostKey, Tell, dial, keys, known_hosts
from console.ssh.exchange import Ran, answered, converse, quietly
from console.ssh.route import Hop, by_hand, route, unread_config

HANDSHAKE = 10.0  # seconds, each: banner, key exchange, an answer to a login, a new channel
COMMAND = 30.0
RETRIES = (0.1, 0.3, 1.0)  # a channel just closed may still count against MaxSessions


class Connection:
    """Closed from any thread at any time, also while it opens."""

    def __init__(self, ask_host_key: AskHostKey | None = None, tell: Tell | None = None) -> None:
        self._ask = ask_host_key
        self._tell = tell or (lambda _: None)
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._closers: list[Callable[[], object]] = []
        self._transport: paramiko.Transport | None = None
        self._by_hand = ""
        self.label = ""
        self.has_sftp = True

    def anew(self) -> Connection:
        """One that is not open yet, to where this one leads."""
        return Connection(self._ask, self._tell)

    def open(self, login: Login) -> None:
        """Connect to `login`. Raises LinkError or one of its kinds by cause, ConfigError for what can't be used."""
        note = unread_config(login)
        if note:
            self._tell(note)
        try:
            hops = route(login)
            self._by_hand = by_hand(login)
            for hop in hops:
                self._transport = self._reach(hop)
                self.label = hop.label
        except dial.Cancelled:
            raise LinkError("the attempt was given up") from None

    def channel(self) -> paramiko.Channel:
        """A new session channel. Raises LinkError."""
        for pause in (*RETRIES, None):
            try:
                return self._live().open_session(timeout=HANDSHAKE)
            except paramiko.ChannelException as error:
                if pause is None:
                    raise LinkError(f"{self.label} opens no channel: {error.text}", "Is MaxSessions 0 there?") from None
                time.sleep(pause)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise LinkError(f"the line to {self.label} broke: {error}") from None
        raise AssertionError  # the last pause is None

    def words(self, command: str) -> str:
        """`command` as this connection's host has to be told it."""
        return command

    def run(self, command: str, stdin: bytes = b"", timeout: float = COMMAND) -> Ran:
        """Run `command` by the login shell in a channel of its own. Raises LinkError when it does not end in time."""
        channel = self.channel()
        try:
            channel.settimeout(timeout)
            with answered(channel, timeout):
                channel.exec_command(self.words(command))
            return converse(channel, stdin, time.monotonic() + timeout)
        except (paramiko.SSHException, EOFError, OSError) as error:
            what = f"no end within {timeout:.0f} s" if isinstance(error, TimeoutError) else str(error) or "line broke"
            raise LinkError(f"{self.label}, running `{command[:60]}`: {what}") from None
        finally:
            quietly(channel.close)

    def close(self) -> None:
        """End the connection and every hop of it, the farthest first."""
        self._cancelled.set()
        with self._lock:
            closers, self._closers = self._closers, []
        for closer in reversed(closers):
            quietly(closer)  # one that stumbles over a broken line must not leave those below it open

    def _live(self) -> paramiko.Transport:
        if self._transport is None or not self._transport.is_active():
            raise LinkError(f"the line to {self.label or 'the host'} is closed")
        return self._transport

    def _keep(self, closer: Callable[[], object]) -> None:
        with self._lock:
            self._closers.append(closer)
        if self._cancelled.is_set():
            self.close()
            raise dial.Cancelled

    def _reach(self, hop: Hop) -> paramiko.Transport:
        self._tell(f"connecting to {hop.label}")
        proxy: dial.ProxyCommand | None = None
        if self._transport is not None:
            sock: paramiko.Channel | socket.socket = dial.through(self._transport, hop)
        elif hop.proxy_command:
            proxy = dial.ProxyCommand(hop.proxy_command)
            self._keep(proxy.close)
            sock = proxy.socket
        else:
            sock = dial.tcp(hop, self._cancelled)
        self._keep(sock.close)
        transport = paramiko.Transport(sock)
        self._keep(transport.close)
        self._shake_hands(transport, hop, proxy)
        self._verify(transport.get_remote_server_key(), hop)
        self._tell(f"logging in to {hop.label}")
        keys.log_in(transport, hop)
        return transport

    def _shake_hands(self, transport: paramiko.Transport, hop: Hop, proxy: dial.ProxyCommand | None) -> None:
        transport.banner_timeout = transport.auth_timeout = transport.channel_timeout = HANDSHAKE
        options = transport.get_security_options()
        options.key_types = _preferred(known_hosts.known_kinds(hop.known_as, hop.known_hosts), options.key_types)
        try:
            transport.start_client(timeout=HANDSHAKE)
            if not transport.initial_kex_done:  # it returns silently when its time is up
                raise TimeoutError(f"no answer within {HANDSHAKE:.0f} s")
        except (paramiko.SSHException, EOFError, OSError) as error:
            told = proxy.told() if proxy else ""
            what = f"{hop.label} did not complete an SSH handshake: {told or error or 'it closed the line'}"
            raise LinkError(what, "Is it an sshd that listens there?") from None

    def _verify(self, key: paramiko.PKey, hop: Hop) -> None:
        kind, raw = key.get_name(), key.asbytes()
        if known_hosts.check(hop.known_as, kind, raw, hop.known_hosts):
            return
        shown = known_hosts.fingerprint(raw)
        if self._ask is None or not self._ask(hop.known_as, kind, shown):
            raise HostKeyUnknown(
                f"{hop.known_as} is not in {hop.known_hosts[0]}; it shows the {kind} key {shown}",
                f"Compare that with the host's own, then accept it by hand: `{self._by_hand}`.",
            )
        try:
            known_hosts.store(hop.known_hosts[0], hop.known_as, kind, raw, hashed=hop.hash_names)
        except OSError as error:
            self._tell(f"{hop.known_hosts[0]} can't be written ({error.strerror}): the key will be asked for again")


def _preferred(known: tuple[str, ...], supported: Iterable[str]) -> tuple[str, ...]:
    """`supported` with the algorithms of the keys on file first, so that the host shows one of those."""
    rsa = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")
    wanted = [name for kind in known for name in (rsa if kind == "ssh-rsa" else (kind,))]
    offered = tuple(supported)
    return (*(name for name in wanted if name in offered), *(name for name in offered if name not in wanted))
