"""What each process holds of the GPUs: the container's view says how much is in use, the Proxmox host's by whom.

Only to be told: nobody is ended by what is found here, and no recovery waits long for it.
"""

from __future__ import annotations

import dataclasses
import queue
import threading

from console.config.profile import Profile
from console.errors import as_operator_error
from console.operations import gpuholders
from console.operations.calls import Agent, gpus
from console.operations.hostgpus import HostGpus
from console.operations.proxmox import ProxmoxHost
from remote.wire.telemetry import GpuSnapshot

PATIENCE = 4.0  # seconds; who waits in the driver, and is to be ended, may have it hang for all


@dataclasses.dataclass(frozen=True)
class GpuMemory:
    """By pid in the container, and by the host's pid, in words: `71.0 GiB on GPU 3`.

    in_use: the GPUs with memory in use. problem: why it isn't known by process; empty when it is.
    """

    inside: dict[int, str] = dataclasses.field(default_factory=dict)
    outside: dict[int, str] = dataclasses.field(default_factory=dict)
    in_use: tuple[str, ...] = ()
    problem: str = ""


def ask(agent: Agent, profile: Profile) -> GpuMemory:
    """The host is asked only where memory is in use. What can't be known in time is the problem it tells."""
    answer: queue.SimpleQueue[GpuMemory] = queue.SimpleQueue()
    work = threading.Thread(target=lambda: answer.put(_ask(agent, profile)), name="gpu memory", daemon=True)
    work.start()
    try:
        return answer.get(timeout=PATIENCE)
    except queue.Empty:
        return GpuMemory(problem=f"no answer in {PATIENCE:.0f} s, from the driver or the Proxmox host")


def _ask(agent: Agent, profile: Profile) -> GpuMemory:
    in_use: tuple[str, ...] = ()
    try:
        seen = gpus(agent)
        in_use = used(seen)
        if not in_use:
            return GpuMemory(problem=seen.problem)
        if profile.proxmox is None:
            return GpuMemory(in_use=in_use, problem="the profile names no Proxmox host")
        with ProxmoxHost(profile.proxmox) as host:  # not the recovery's own line, which must not wait for this
            return by_process(seen, host.gpus())
    except Exception as error:  # of a fault too there must be an answer: it is waited for
        return GpuMemory(in_use=in_use, problem=as_operator_error(error).what)


def used(seen: GpuSnapshot) -> tuple[str, ...]:
    return tuple(_words(gpu.memory_used, gpu.index) for gpu in gpuholders.in_use(seen))


def by_process(seen: GpuSnapshot, host: HostGpus) -> GpuMemory:
    """GPUs by their ids, numbered as in the container; processes by the host's pid, the kernel tells the other one."""
    parts: dict[int, list[str]] = {}
    inner: dict[int, int] = {}
    index = {uuid: gpu.index for gpu in seen.gpus for uuid in (gpu.uuid, *(part.uuid for part in gpu.mig or ()))}
    for gpu in host.gpus:
        for holder in gpu.holders if gpu.uuid in index else ():
            parts.setdefault(holder.pid, []).append(_words(holder.used, index[gpu.uuid]))
            if holder.process is not None and holder.process.inner is not None:
                inner[holder.pid] = holder.process.inner
    told = {pid: ", ".join(words) for pid, words in parts.items()}
    problem = host.problem or ("" if told else "the Proxmox host's driver lists no process")
    return GpuMemory({inner[pid]: words for pid, words in told.items() if pid in inner}, told, used(seen), problem)


def _words(count: int | None, index: int) -> str:
    return f"{'memory' if count is None else f'{count / gpuholders.GIB:.1f} GiB'} on GPU {index}"
