"""Questions to the Proxmox host, by plain `pct` over its own connection: no agent runs there."""

from __future__ import annotations

from console.config.profile import Proxmox
from console.errors import OperatorError
from console.ssh.connection import Connection
from console.text import harmless


class ProxmoxError(OperatorError):
    id = "proxmox"
    title = "The Proxmox host did not answer as it should"
    exit_code = 4


def container_status(proxmox: Proxmox) -> str:
    """`running` or `stopped`, as `pct status VMID` says. Raises LinkError or ProxmoxError.

    What it prints decides, not its exit status: pct's own failures carry arbitrary ones.
    """
    connection = Connection()
    try:
        connection.open(proxmox)
        ran = connection.run(f"pct status {proxmox.vmid:d}", timeout=20.0)
    finally:
        connection.close()
    answer = ran.out.decode("utf-8", "replace").strip()
    if answer.startswith("status: "):
        return harmless(answer.removeprefix("status: "))
    said = ran.err.decode("utf-8", "replace").strip() or answer or "nothing"
    raise ProxmoxError(
        f"`pct status {proxmox.vmid}` on {proxmox.host} said: {harmless(said)}",
        "Check proxmox.host and proxmox.vmid; `pct` needs root there.",
    )
