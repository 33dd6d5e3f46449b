"""GPUs and shared memory. All sizes in bytes, all times in seconds since the epoch on the container's clock."""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU. A value NVML does not give is None. problem: why this GPU can't be read, empty when it can."""

    index: int
    name: str = ""
    memory_used: Optional[int] = None
    memory_total: Optional[int] = None
    utilization: Optional[int] = None  # percent
    power: Optional[float] = None  # watts
    temperature: Optional[int] = None  # degrees Celsius
    processes: Optional[int] = None
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class GpuSnapshot:
    """problem: why there is no GPU to show (no library, driver mismatch, …), empty when there is one."""

    at: float
    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    remedy: str = ""


@dataclasses.dataclass(frozen=True)
class ShmSnapshot:
    """The file system that holds the dumps. dumps: bytes held by the dump folder.

    cgroup_headroom: what the memory cgroup still allows, None where there is no limit; room is the less of both.
    """

    at: float
    path: str
    size: int = 0
    used: int = 0
    free: int = 0
    cgroup_headroom: Optional[int] = None
    dumps: int = 0
    problem: str = ""
