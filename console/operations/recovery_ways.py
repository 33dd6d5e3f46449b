"""The ways to a container that may not be well: the live link, the Proxmox host, and the agent run through it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from types import TracebackType
from typing import Self

from console import client as clients
from console.client import AgentClient
from console.config.profile import Profile
from console.errors import HostKeyChanged, LinkError, NoAnswer, OperatorError, Refused
from console.operations import recovery_gpus
from console.operations.calls import Agent
from console.operations.fate import Wait
from console.operations.hostview import HostFacts
from console.operations.proxmox import ProxmoxHost, said
from console.operations.recovery_gpus import GpuMemory
from console.ssh import known_hosts
from console.ssh.pct import PctConnection
from console.ssh.route import route
from remote.wire.codec import decode
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase

FACTS = 30.0  # seconds; a server that hangs is asked first, for its health and for a token
EXEC = 10.0  # seconds; in a container that is frozen or can't fork, `pct exec` hangs
# A second look: connections that nobody accepts by then either are those of an sshd that hangs, and one that has just
# been started has its socket by then.
SSHD_LISTENS = """\
for wait in 0 0.5; do
  sleep $wait
  sockets=$(ss -ltnH | grep ':{port} ')
  [ -n "$sockets" ] && ! echo "$sockets" | grep -q '^LISTEN *[1-9]' && echo listens && exit
done
[ -n "$sockets" ] && echo deaf || echo absent"""
HOST_KEYS = "cat /etc/ssh/ssh_host_*_key.pub"


class WrongContainer(Refused):
    """vmid names another container than the one that the profile's host leads to."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What all ways together show. facts: from inside, None when no agent could be run there.

    way: "link", "pct" (the agent runs there through the host's `pct exec`) or "host" (only the host's own view).
    no_inside, no_host: why there is no such view; empty when there is one, or none was needed.
    sshd_dead: nobody listens for ssh in the container, or who does accepts nobody. prefix, limits: as ProxmoxHost has
    them; prefix is None when there is no connection to the host. memory: of the GPUs, by process.
    """

    facts: PortFacts | None
    host: HostFacts | None = None
    way: str = "link"
    no_inside: str = ""
    no_host: str = ""
    sshd_dead: bool = False
    prefix: str | None = None
    limits: str = ""
    memory: GpuMemory = dataclasses.field(default_factory=GpuMemory)


class Ways:
    """Opened as needed, closed at the end of the block. agent: None when the link is down; then the host is the way.

    no_agent: why `open` had none. wait: for the next link, where one goes while it is acted over.
    """

    def __init__(self, agent: Agent | None, profile: Profile, wait: Wait | None = None) -> None:
        self.profile = profile
        self.wait = wait
        self.agent = agent
        self.way = "link"
        self.no_agent: OperatorError | None = None
        self._stack = contextlib.ExitStack()
        self._host: ProxmoxHost | None = None
        self._no_host: OperatorError | None = None
        self._exec_works = False

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
        if self._no_host is not None:  # which took its time to find out
            raise self._no_host
        if self._host is None:
            try:
                self._host = self._stack.enter_context(ProxmoxHost(self.profile.proxmox))
            except OperatorError as error:
                self._no_host = error
                raise
        return self._host

    def see(self, *, restart: bool = False) -> Seen:
        """Look from inside, and from the host where inside does not see enough. Raises LinkError without any way.

        restart: the host is needed whatever is seen. Raises WrongContainer when it is another container's host view.
        """
        facts, out = self._inside()
        enough = facts is not None and not (facts.unseen or _stuck(facts) or powerless(facts))
        if enough and self.way == "link" and not restart:
            return Seen(facts, memory=self._gpu_memory(facts))
        host, blind = self._from_host()
        if out is not None and blind is not None:
            raise _no_way(out, blind)
        if facts is not None and host is not None and _differ(facts.namespace, host.namespace):
            wrong = self._wrong("its processes are in another namespace than those that the link shows")
            if restart:
                raise wrong
            return Seen(facts, no_host=wrong.what)
        no_inside, no_host = (error.what if error is not None else "" for error in (out, blind))
        limits = self._host.limits if self._host else ""
        prefix = self._host.prefix if self._host else None
        memory = self._gpu_memory(facts)
        return Seen(facts, host, self.way, no_inside, no_host, self._sshd_dead(), prefix, limits, memory)

    def open(self) -> None:
        """Have an agent inside, if any way leads there."""
        if self.agent is None:
            try:
                self.agent, self.way = self._agent_by_host(), "pct"
            except OperatorError as error:
                self.no_agent = error

    def again(self, line: str) -> str:
        """Start the container's sshd by that line; what is seen of it then, as `_sshd` has it."""
        self.host.run(line)
        return self._sshd()

    def _inside(self) -> tuple[PortFacts | None, OperatorError | None]:
        fault: OperatorError | None = None
        if self.agent is not None:
            try:
                return decode(PortFacts, self.agent.call("recover.facts", timeout=FACTS)), None
            except OperatorError as error:
                if self.profile.proxmox is None:
                    error.remedy = f"{error.remedy} A [proxmox] table in the profile gives another way in.".strip()
                    raise
                self.agent, fault = None, error
        try:
            if isinstance(fault, NoAnswer):  # the link lives: an agent by `pct exec` would wait for the same, as long
                self._check_identity()
                self.way = "host"
                return None, fault
            self.agent, self.way = self._agent_by_host(), "pct"
            return decode(PortFacts, self.agent.call("recover.facts", timeout=FACTS)), None
        except WrongContainer:
            raise
        except OperatorError as error:
            self.way = "host"
            return None, error if fault is None else _both(fault, error)

    def _agent_by_host(self) -> AgentClient:
        """The agent in the container, run by `pct exec` on the host. Raises WrongContainer."""
        self._check_identity()
        connection = PctConnection(self.host.proxmox, self.host.prefix)
        client = clients.start(connection, self.profile, lambda _: None)
        self._stack.callback(client.close)
        return client

    def _check_identity(self) -> None:
        """The container's ssh host keys are those that known_hosts has for the profile's host, where both are known."""
        ran = self.host.execute("sh", "-c", HOST_KEYS, timeout=EXEC)
        self._exec_works = True
        hop = route(self.profile.container)[-1]
        changed: HostKeyChanged | None = None
        for kind, key in _public_keys(ran.out):
            try:
                if known_hosts.check(hop.known_as, kind, key, hop.known_hosts):
                    return
            except HostKeyChanged as error:
                changed = error
        if changed is not None:
            raise self._wrong(f"its ssh host key is not that of {hop.known_as}")

    def _wrong(self, why: str) -> WrongContainer:
        proxmox = self.host.proxmox
        return WrongContainer(
            f"container {proxmox.vmid} on {proxmox.host} is not {self.profile.container.host}: {why}",
            f"Correct proxmox.vmid; `pct list` on {proxmox.host} shows them all. Nothing was done.",
        )

    def _from_host(self) -> tuple[HostFacts | None, OperatorError | None]:
        try:
            return self.host.look(self.profile.server.port), None
        except OperatorError as error:
            return None, error

    def _gpu_memory(self, facts: PortFacts | None) -> GpuMemory:
        """Who holds what of the GPUs, where there is somebody to end."""
        if facts is None or not facts.processes or self.agent is None:
            return GpuMemory()
        return recovery_gpus.ask(self.agent, self.profile)

    def _sshd_dead(self) -> bool:
        return self.way != "link" and self._exec_works and self._sshd() in ("absent", "deaf")

    def _sshd(self) -> str:
        """`listens`, `deaf` (it accepts nobody), `absent`, or what was said instead, where nobody could look."""
        port = route(self.profile.container)[-1].port
        ran = self.host.execute("sh", "-c", SSHD_LISTENS.format(port=port))
        last = ran.out.decode("utf-8", "replace").split()[-1:]
        return last[0] if last and last[0] in ("listens", "deaf", "absent") else said(ran)


def _no_way(inside: OperatorError, host: OperatorError) -> LinkError:
    if inside.what.endswith(host.what):  # the host itself was not to be had, by which the way inside leads as well
        return LinkError(inside.what, host.remedy)
    return _both(inside, host)


def _both(first: OperatorError, by_host: OperatorError) -> LinkError:
    return LinkError(f"{first.what}; and by the Proxmox host: {by_host.what}", by_host.remedy or first.remedy)


def powerless(facts: PortFacts) -> bool:
    """Who looks from inside may not signal everybody."""
    return facts.user != "root" and not facts.as_root and any(one.user != facts.user for one in facts.processes)


def _stuck(facts: PortFacts) -> bool:
    """Somebody waits in the kernel: the host may know why (a frozen control group)."""
    return facts.phase is not Phase.READY and any(process.state == "D" for process in facts.processes)


def _differ(one: str, other: str) -> bool:
    return bool(one and other) and one != other


def _public_keys(text: bytes) -> list[tuple[str, bytes]]:
    found = []
    for words in map(str.split, text.decode("utf-8", "replace").splitlines()):
        with contextlib.suppress(ValueError, IndexError):
            found.append((words[0], base64.b64decode(words[1], validate=True)))
    return found
