"""A container reached through its Proxmox host, by `pct exec`: for when its own sshd is dead."""

from __future__ import annotations

import shlex

from console.config.profile import Login, Proxmox
from console.ssh.connection import Connection


class PctConnection(Connection):
    """Its commands run as root in the container, by `sh`. The way there is the host's sshd and its `pct`.

    prefix: put before `pct`: `sudo -n ` for a user of the host who isn't root.
    """

    def __init__(self, proxmox: Proxmox, prefix: str = "") -> None:
        super().__init__()
        self._proxmox = proxmox
        self._prefix = prefix
        self.has_sftp = False

    def anew(self) -> PctConnection:
        return PctConnection(self._proxmox, self._prefix)

    def open(self, login: Login) -> None:  # noqa: ARG002 - the container's own sshd is what this does without
        super().open(self._proxmox)
        self.label = f"container {self._proxmox.vmid} by {self.label}"

    def words(self, command: str) -> str:
        return f"{self._prefix}{pct_exec(self._proxmox.vmid, 'sh', '-c', command)}"


def pct_exec(vmid: int, *words: str) -> str:
    """`pct exec` of a command, as a shell takes it. Without `--`, pct would take the command's options for its own."""
    return f"pct exec {vmid:d} --keep-env=0 -- {shlex.join(words)}"
