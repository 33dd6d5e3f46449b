"""The ways to a container that may not be well: the live link, the Proxmox host, and the agent run through it."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from types import TracebackType
from typing import Self

from console import client as clients
from console.client import AgentClient
from console.config.profile import Profile
from console.errors import LinkError, NoAnswer, OperatorError
from console.operations.calls import Agent
from console.operations.hostview import HostFacts
from console.operations.proxmox import ProxmoxHost
from console.ssh.pct import PctConnection
from console.ssh.route import route
from remote.wire.codec import decode
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase

FACTS = 30.0  # seconds; a server that hangs is asked first
SSHD_LISTENS = "ss -ltnH | grep -q ':{port} ' && echo listens || echo deaf"
RESTART_SSHD = (
    "systemctl restart ssh 2>/dev/null || systemctl restart sshd 2>/dev/null || "
    "{ mkdir -p /run/sshd; setsid -f /usr/sbin/sshd </dev/null >/dev/null 2>&1; }"
)


@dataclasses.dataclass(frozen=True)
class Seen:
    """What all ways together show. facts: from inside, None when no agent could be run there.

    way: "link", "pct" (the agent runs there through the host's `pct exec`) or "host" (only the host's own view).
    no_inside, no_host: why there is no such view; empty when there is one, or none was needed.
    sshd_dead: nobody listens for ssh in the container.
    """

    facts: PortFacts | None
    host: HostFacts | None = None
    way: str = "link"
    no_inside: str = ""
    no_host: str = ""
    sshd_dead: bool = False


class Ways:
    """Opened as needed, closed at the end of the block. agent: None when the link is down; then the host is the way."""

    def __init__(self, agent: Agent | None, profile: Profile) -> None:
        self.profile = profile
        self.agent = agent
        self.way = "link"
        self._stack = contextlib.ExitStack()
        self._host: ProxmoxHost | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def host(self) -> ProxmoxHost:
        """The Proxmox host. Raises LinkError when there is none in the profile, or it can't be reached."""
        if self.profile.proxmox is None:
            raise LinkError("the profile names no Proxmox host", "Add a [proxmox] table with host and vmid.")
        if self._host is None:
            self._host = self._stack.enter_context(ProxmoxHost(self.profile.proxmox))
        return self._host

    def see(self) -> Seen:
        """Look from inside, and from the host where inside does not see enough. Raises LinkError without any way."""
        facts, no_inside = self._inside()
        enough = facts is not None and not facts.unseen and not _stuck(facts)
        if enough and self.way == "link":
            return Seen(facts)
        host, no_host = self._from_host()
        if facts is None and host is None:
            raise LinkError(f"{no_inside}; and by the Proxmox host: {no_host}", "One of the two ways must work.")
        way = self.way if facts is not None else "host"
        return Seen(facts, host, way, no_inside, no_host, self.way != "link" and host is not None and self._sshd_dead())

    def open(self) -> None:
        """Have an agent inside, if any way leads there."""
        if self.agent is None:
            with contextlib.suppress(OperatorError):
                self.agent, self.way = self._agent_by_host(), "pct"

    def restart_sshd(self) -> tuple[bool, str]:
        """Does it listen again, and the command."""
        self.host.execute("sh", "-c", RESTART_SSHD)
        return not self._sshd_dead(), sshd_command(self.profile)

    def _inside(self) -> tuple[PortFacts | None, str]:
        if self.agent is not None:
            try:
                return decode(PortFacts, self.agent.call("recover.facts", timeout=FACTS)), ""
            except (LinkError, NoAnswer) as error:
                if self.way == "pct":
                    return None, error.what
                self.agent = None
        try:
            self.agent, self.way = self._agent_by_host(), "pct"
            return decode(PortFacts, self.agent.call("recover.facts", timeout=FACTS)), ""
        except OperatorError as error:
            return None, error.what

    def _agent_by_host(self) -> AgentClient:
        """The agent in the container, run by `pct exec` on the host."""
        connection = PctConnection(self.host.proxmox, self.host.prefix)
        client = clients.start(connection, self.profile, lambda _: None)
        self._stack.callback(client.close)
        return client

    def _from_host(self) -> tuple[HostFacts | None, str]:
        try:
            return self.host.look(self.profile.server.port), ""
        except OperatorError as error:
            return None, error.what

    def _sshd_dead(self) -> bool:
        port = route(self.profile.container)[-1].port
        ran = self.host.execute("sh", "-c", SSHD_LISTENS.format(port=port))
        return ran.out.strip() == b"deaf"


def sshd_command(profile: Profile) -> str:
    """How the container's sshd is started again, as the plan shows it."""
    assert profile.proxmox is not None  # noqa: S101 - only planned where there is one
    return f"pct exec {profile.proxmox.vmid} --keep-env=0 -- sh -c {shlex.quote(RESTART_SSHD)}"


def _stuck(facts: PortFacts) -> bool:
    """Somebody waits in the kernel: the host may know why (a frozen control group)."""
    return facts.phase is not Phase.READY and any(process.state == "D" for process in facts.processes)
