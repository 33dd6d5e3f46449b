"""The Proxmox host, by plain commands over its own connection: no agent runs there."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from console.config.profile import Proxmox
from console.errors import LinkError, OperatorError
from console.operations import hostgpus, hostview
from console.operations.hostgpus import HostGpus
from console.operations.hostview import HostFacts
from console.ssh.connection import Connection
from console.ssh.exchange import Ran
from console.ssh.pct import pct_exec
from console.text import harmless

T = TypeVar("T")

LOOK = 30.0  # seconds; a host may have ten thousand processes
QUICK = 20.0


class ProxmoxError(OperatorError):
    id = "proxmox"
    title = "The Proxmox host did not answer as it should"
    exit_code = 4


class ProxmoxHost:
    """An open connection to the host of a container; a context manager. Raises LinkError when it can't be reached.

    prefix: what makes its commands root's: nothing for root, `sudo -n ` for others. limits: why that user may do
    nothing but `pct` as root, empty when all is allowed. What a command prints decides, not its exit status: pct's own
    failures carry arbitrary ones.
    """

    def __init__(self, proxmox: Proxmox) -> None:
        self.proxmox = proxmox
        self.prefix = ""
        self.limits = ""
        self._connection = Connection()

    def __enter__(self) -> Self:
        try:
            self._connection.open(self.proxmox)
            self._become_root()
        except BaseException:
            self._connection.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def status(self) -> str:
        """`running` or `stopped`, as `pct status VMID` says. Raises LinkError or ProxmoxError."""
        ran = self.run(f"{self.prefix}pct status {self.proxmox.vmid:d}")
        answer = _text(ran.out)
        if answer.startswith("status: "):
            return harmless(answer.removeprefix("status: "))
        raise ProxmoxError(
            f"`pct status {self.proxmox.vmid}` on {self.proxmox.host} said: {said(ran)}",
            "Check proxmox.host and proxmox.vmid; `pct` needs root there.",
        )

    def look(self, port: int) -> HostFacts:
        """Who holds `port` of the container, as the host sees it. Raises LinkError or ProxmoxError."""
        return self._look(lambda mark: hostview.look_command(self.proxmox.vmid, port, mark), hostview.parse)

    def gpus(self) -> HostGpus:
        """Who holds the GPUs of the host. Raises LinkError or ProxmoxError."""
        return self._look(lambda mark: hostgpus.look_command(self.proxmox.vmid, mark), hostgpus.parse)

    def _look(self, command: Callable[[str], str], parse: Callable[[str, str], T]) -> T:
        if self.limits:
            raise ProxmoxError(self.limits, "Allow that user sudo for all commands, or set proxmox.user to root.")
        mark = hostview.new_mark()
        ran = self.run(self.prefix + command(mark), LOOK)
        try:
            return parse(ran.out.decode("utf-8", "replace"), mark)
        except hostview.Unreadable as error:
            what = f"{self.proxmox.host}: {error}. {said(ran)}"
            raise ProxmoxError(what, "Try again; the host needs sh, find and base64.") from None

    def execute(self, *words: str, timeout: float = QUICK) -> Ran:
        """Run a command as root in the container, through `pct exec`."""
        return self.run(self.prefix + pct_exec(self.proxmox.vmid, *words), timeout)

    def run(self, line: str, timeout: float = QUICK) -> Ran:
        """Run a line just as it is."""
        return self._connection.run(line, timeout=timeout)

    def becomes(self, wanted: str, seconds: float = 5.0) -> bool:
        """Whether the container is `running`, or `stopped`, within that time."""
        deadline = time.monotonic() + seconds
        while self.status() != wanted:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def _become_root(self) -> None:
        if _ends_with_zero(self.run("id -u")):
            return
        self.prefix = "sudo -n "
        ran = self.run("sudo -n id -u")
        if _ends_with_zero(ran):
            return
        user = self._connection.label.partition("@")[0]
        # sudo's own answer to whether that command would be allowed: its path, or nothing
        asked = self.run(f"sudo -n -l {pct_exec(self.proxmox.vmid, 'true')}")
        if "/pct " not in _text(asked.out):
            raise LinkError(
                f"{self._connection.label} is not root there, and `sudo -n` does not make it: {said(ran)}",
                f"Set proxmox.user to root, or put into /etc/sudoers.d there: {user} ALL=(root) NOPASSWD: ALL "
                "– or, for what goes by `pct` alone, /usr/sbin/pct instead of the last ALL.",
            )
        self.limits = f"{user} may run `pct` as root on {self.proxmox.host}, and nothing else"


def container_status(proxmox: Proxmox) -> str:
    """`running` or `stopped`. Raises LinkError or ProxmoxError."""
    with ProxmoxHost(proxmox) as host:
        return host.status()


def _ends_with_zero(ran: Ran) -> bool:
    """Of `id -u`, whatever the login shell printed before it."""
    return _text(ran.out).splitlines()[-1:] == ["0"]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def said(ran: Ran) -> str:
    return harmless(_text(ran.err) or _text(ran.out) or "it said nothing", 500)
