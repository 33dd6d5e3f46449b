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
from console.ssh.connection import AskHostKey, Connection, Ran
from console.ssh.pct import pct_exec
from console.text import harmless

T = TypeVar("T")

LOOK = 30.0  # seconds; a host may have ten thousand processes
QUICK = 20.0
STOP, START = 60.0, 60.0


class ProxmoxError(OperatorError):
    id = "proxmox"
    title = "The Proxmox host did not answer as it should"
    exit_code = 4


class ProxmoxHost:
    """An open connection to the host of a container; a context manager. Raises LinkError when it can't be reached.

    prefix: what makes its commands root's: nothing for root, `sudo -n ` for others. What a command prints decides,
    not its exit status: pct's own failures carry arbitrary ones.
    """

    def __init__(self, proxmox: Proxmox, ask_host_key: AskHostKey | None = None) -> None:
        self.proxmox = proxmox
        self.prefix = ""
        self._connection = Connection(ask_host_key)

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
        ran = self.run(f"pct status {self.proxmox.vmid:d}")
        answer = _text(ran.out)
        if answer.startswith("status: "):
            return harmless(answer.removeprefix("status: "))
        raise ProxmoxError(
            f"`pct status {self.proxmox.vmid}` on {self.proxmox.host} said: {_said(ran)}",
            "Check proxmox.host and proxmox.vmid; `pct` needs root there.",
        )

    def look(self, port: int) -> HostFacts:
        """Who holds `port` of the container, as the host sees it. Raises LinkError or ProxmoxError."""
        return self._look(lambda mark: hostview.look_command(self.proxmox.vmid, port, mark), hostview.parse)

    def gpus(self) -> HostGpus:
        """Who holds the GPUs of the host. Raises LinkError or ProxmoxError."""
        return self._look(lambda mark: hostgpus.look_command(self.proxmox.vmid, mark), hostgpus.parse)

    def _look(self, command: Callable[[str], str], parse: Callable[[str, str], T]) -> T:
        mark = hostview.new_mark()
        ran = self.run(command(mark), LOOK)
        try:
            return parse(ran.out.decode("utf-8", "replace"), mark)
        except hostview.Unreadable as error:
            what = f"{self.proxmox.host}: {error}. {_said(ran)}"
            raise ProxmoxError(what, "Try again; the host needs sh, find and base64.") from None

    def signal(self, pid: int, start_ticks: int, name: str) -> str:
        """Signal that process of the host if it still is that one: `sent`, `gone`, `there` (name 0), or why not."""
        mark = hostview.new_mark()
        ran = self.run(hostview.signal_command(pid, start_ticks, name, mark))
        _, found, answer = _text(ran.out).partition(f"{mark} ")
        return harmless(answer) if found else f"failed: {_said(ran)}"

    def execute(self, *words: str, timeout: float = QUICK) -> Ran:
        """Run a command as root in the container, through `pct exec`."""
        return self.run(pct_exec(self.proxmox.vmid, *words), timeout)

    def thaw(self, path: str) -> Ran:
        word = "THAWED" if path.endswith("/freezer.state") else "0"
        return self.run(hostview.write_command(path, word))

    def restart(self) -> tuple[bool, str]:
        """Stop the container at once and start it again; each bounded. False, with the reason, when it doesn't."""
        vmid = self.proxmox.vmid
        for command, wanted, limit in (("stop", "stopped", STOP), ("start", "running", START)):
            if self.status() == wanted:
                continue
            # `pct stop` has no limit of its own and would keep the container's lock
            ran = self.run(f"timeout {limit:.0f} pct {command} {vmid:d}", limit + QUICK)
            if not self._becomes(wanted):
                return False, f"`pct {command} {vmid}` did not end in {limit:.0f} s or failed: {_said(ran)}"
        return True, f"container {vmid} runs again"

    def run(self, command: str, timeout: float = QUICK) -> Ran:
        return self._connection.run(self.prefix + command, timeout=timeout)

    def _becomes(self, wanted: str, seconds: float = 5.0) -> bool:
        deadline = time.monotonic() + seconds
        while self.status() != wanted:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def _become_root(self) -> None:
        ran = self._connection.run("id -u", timeout=QUICK)
        if _text(ran.out).splitlines()[-1:] == ["0"]:
            return
        ran = self._connection.run("sudo -n id -u", timeout=QUICK)
        if _text(ran.out).splitlines()[-1:] != ["0"]:
            raise LinkError(
                f"{self._connection.label} is not root there, and `sudo -n` does not make it: {_said(ran)}",
                "Set proxmox.user to root, or allow that user sudo without a password.",
            )
        self.prefix = "sudo -n "


def container_status(proxmox: Proxmox) -> str:
    """`running` or `stopped`. Raises LinkError or ProxmoxError."""
    with ProxmoxHost(proxmox) as host:
        return host.status()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def _said(ran: Ran) -> str:
    return harmless(_text(ran.err) or _text(ran.out) or "it said nothing", 500)
