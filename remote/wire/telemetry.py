"""GPUs and shared memory. All sizes in bytes, all times in seconds since the epoch on the container's clock."""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class MigDevice:
    """A part of a GPU that is split by MIG. A value NVML does not give is None. problem: why it can't be read."""

    index: int
    name: str = ""
    memory_used: Optional[int] = None
    memory_total: Optional[int] = None
    processes: Optional[int] = None
    uuid: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU. A value NVML does not give is None, and `absent` says why: "memory: Not Supported".

    problem: why this GPU can't be read, empty when it can. processes: how many use it, None where that isn't shown;
    never their pids, which inside of a container are the host's. mig: its MIG devices, None when it isn't split.
    """

    index: int
    name: str = ""
    memory_used: Optional[int] = None
    memory_total: Optional[int] = None
    utilization: Optional[int] = None  # percent
    power: Optional[float] = None  # watts
    temperature: Optional[int] = None  # degrees Celsius
    processes: Optional[int] = None
    problem: str = ""
    uuid: str = ""
    mig: Optional[tuple[MigDevice, ...]] = None
    absent: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class GpuSnapshot:
    """problem: why there is no GPU to show (no library, driver mismatch, …), or nothing newer; empty when all is well.

    age: of these values when they were sent, seconds; 0 unless the driver has given no answer since. note: how they
    were read, when not by NVML.
    """

    at: float
    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    remedy: str = ""
    age: float = 0.0
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ShmOwner:
    """Segments in /dev/shm of one kind of maker: NCCL, SGLang, Python, PyTorch, CUDA. bytes: of memory they take."""

    name: str
    bytes: int
    files: int


@dataclasses.dataclass(frozen=True)
class ShmSnapshot:
    """The file system that holds the dumps. dumps: bytes held by the dump folder.

    cgroup_headroom: what the memory cgroup still allows, None where there is no limit; room is the less of both.
    filling, emptying: bytes a second over the last minute, both ways by itself; None while too little was seen.
    owners: of segments, where the dumps are in /dev/shm; what neither they nor the dumps hold is others'.
    stale, stale_files: of the owners' bytes and files, what dead processes left. unsure: bytes of which that can't be
    told; doubt: why.
    """

    at: float
    path: str
    size: int = 0
    used: int = 0
    free: int = 0
    cgroup_headroom: Optional[int] = None
    dumps: int = 0
    problem: str = ""
    filling: Optional[float] = None
    emptying: Optional[float] = None
    owners: tuple[ShmOwner, ...] = ()
    stale: int = 0
    stale_files: int = 0
    unsure: int = 0
    doubt: str = ""
