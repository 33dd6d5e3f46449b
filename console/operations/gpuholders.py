"""Who holds the container's GPU memory: what the agent sees of the GPUs, and what the host sees of them, in one."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from console.config.profile import Profile
from console.errors import OperatorError
from console.operations.hostgpus import Holder, HostGpu, HostGpus
from console.text import harmless
from remote.wire.codec import decode
from remote.wire.plan import Check, Verdict
from remote.wire.telemetry import Gpu, GpuSnapshot

if TYPE_CHECKING:
    from console.operations.calls import Agent

GIB = 1 << 30
IN_USE = GIB  # bytes; the driver alone takes less
CHECKS = ("gpus", "gpu memory")  # of the preflight, and of the proof of a stop
MOST = 6  # holders named of one GPU
OTHER = re.compile(r"/lxc(?:\.payload[./]|/)(\d+)(?:/|$)")  # the control group of a container of Proxmox's


@dataclasses.dataclass(frozen=True)
class Held:
    """A GPU, by the container's index, that has memory in use: how much (bytes), and by whom, in words."""

    index: int
    used: int
    by: tuple[str, ...]

    @property
    def line(self) -> str:
        return f"GPU {self.index}: {_gib(self.used)} held by {'; '.join(self.by)}"


@dataclasses.dataclass(frozen=True)
class GpuHolders:
    """problem: why there are none, or not all; empty when all is known."""

    held: tuple[Held, ...] = ()
    problem: str = ""


def in_use(seen: GpuSnapshot) -> list[Gpu]:
    """GPUs with so much memory in use that somebody must have it."""
    return [gpu for gpu in seen.gpus if (gpu.memory_used or 0) > IN_USE]


def ask(profile: Profile, seen: GpuSnapshot) -> GpuHolders | None:
    """Who has the memory that `seen` shows in use. None where none is, or the profile names no Proxmox host.

    Never raises for a host that can't be asked: that is the problem it tells.
    """
    if profile.proxmox is None or not in_use(seen):
        return None
    from console.operations.proxmox import ProxmoxHost  # paramiko: not before it is needed

    try:
        with ProxmoxHost(profile.proxmox) as host:
            return match(seen, host.gpus())
    except OperatorError as error:
        return GpuHolders(problem=f"the Proxmox host can't be asked: {error.what}")


def match(seen: GpuSnapshot, host: HostGpus) -> GpuHolders:
    """By the GPUs' ids: the container may have only some of the host's, and number them otherwise."""
    known = {gpu.uuid: gpu for gpu in host.gpus}
    held = []
    for gpu in in_use(seen):
        parts = [known[uuid] for uuid in (gpu.uuid, *(part.uuid for part in gpu.mig or ())) if uuid in known]
        held.append(Held(gpu.index, gpu.memory_used or 0, _words(parts)))
    return GpuHolders(tuple(held), host.problem)


def explain(agent: Agent, profile: Profile, checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """`checks`, and who holds the GPU memory where one of them finds some in use."""
    if profile.proxmox is None or all(check.verdict is Verdict.OK for check in checks if check.name in CHECKS):
        return checks
    try:
        found = ask(profile, decode(GpuSnapshot, agent.call("gpus")))
    except OperatorError as error:
        found = GpuHolders(problem=error.what)
    if found is None:
        return checks
    said = "\n".join([*(held.line for held in found.held), *filter(None, [found.problem])])
    remedy = "Nothing is ended by what the host sees of GPUs: look at each first."
    return (*checks, Check("gpu holders", Verdict.WARN if found.held else Verdict.UNKNOWN, said, remedy))


def _words(parts: list[HostGpu]) -> tuple[str, ...]:
    if not parts:
        return ("somebody unknown: the host does not list this GPU",)
    words = [_holder(holder) for part in parts for holder in part.holders]
    words = words or [f"{_holder(holder)}, which has it open" for part in parts for holder in part.opened_by]
    if len(words) > MOST:
        words = [*words[:MOST], f"{len(words) - MOST} more"]
    return tuple(words) or ("nobody whom the host sees",)


def _holder(holder: Holder) -> str:
    process = holder.process
    amount = f" ({_gib(holder.used)})" if holder.used is not None else ""
    if process is None:
        return f"pid {holder.pid} of the host, which has ended{amount}"
    command = harmless(process.command, 80)
    if process.inner is None:
        other = OTHER.search(process.cgroup)
        place = f"of container {other[1]}" if other else "outside of the container"
        return f"a process {place}: pid {process.pid} of uid {process.uid}, {command}{amount}"
    return f"pid {process.pid} {command} (container {process.inner}){amount}"


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
