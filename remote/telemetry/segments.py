"""Shared-memory segments in /dev/shm: whose kind each is, told by the names that their makers give them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import stat
from pathlib import Path
from typing import Optional

SHM = Path("/dev/shm")
BLOCK = 512  # bytes; the unit of st_blocks

NCCL, SGLANG, PYTHON, TORCH, CUDA = "NCCL", "SGLang", "Python", "PyTorch", "CUDA"

# Names as the sources form them, NCCL 2.2x, SGLang 0.5.x, CPython 3.8-3.13, joblib's loky, PyTorch, CUDA's IPC.
# Any other file is of nobody that is known here. pid: of the process that made it, as that process saw itself.
DECIMAL, HEXADECIMAL = 10, 16
FAMILIES = (
    (NCCL, r"nccl-[\w-]+", DECIMAL),
    (SGLANG, r"sglang_loads_[\w.-]+\.shm", DECIMAL),
    (SGLANG, r"sgl_shm_\w+_(?P<pid>\d+)_[0-9a-f]+", DECIMAL),
    (SGLANG, r"multi_tokenizer_args_(?P<pid>\d+)", DECIMAL),
    (SGLANG, r"sglang_host_pool_[0-9a-f]+\.mmap", DECIMAL),
    (PYTHON, r"psm_[0-9a-f]{8}", DECIMAL),
    (PYTHON, r"sem\.mp-[a-z0-9_]{8}", DECIMAL),
    (PYTHON, r"sem\.loky-(?P<pid>\d+)-[\w-]+", DECIMAL),
    (TORCH, r"torch_(?P<pid>\d+)_\d+_\d+", DECIMAL),
    (CUDA, r"cuda\.shm\.[0-9a-f]+\.(?P<pid>[0-9a-f]+)\.[0-9a-f]+", HEXADECIMAL),
)
_PATTERNS = tuple((owner, re.compile(pattern, re.ASCII), base) for owner, pattern, base in FAMILIES)


@dataclasses.dataclass(frozen=True)
class Segment:
    """One file of a known kind. bytes: of memory that it takes; size: what it says it has, maybe never touched.

    pid: of its maker, where its name tells. changed: when it was last written to or resized, seconds since the epoch.
    """

    name: str
    owner: str
    pid: Optional[int]
    uid: int
    bytes: int
    size: int
    device: int
    inode: int
    mtime_ns: int
    ctime_ns: int

    @property
    def changed(self) -> float:
        return max(self.mtime_ns, self.ctime_ns) / 1e9


def kind(name: str) -> tuple[str, Optional[int]]:
    """Owner and maker's pid by a file's name; no owner for a name that no known maker gives."""
    for owner, pattern, base in _PATTERNS:
        match = pattern.fullmatch(name)
        if match:
            pid = match.groupdict().get("pid")
            return owner, int(pid, base) if pid else None
    return "", None


def listing() -> list[Segment]:
    """The segments that are there now, by name. Only regular files: a link or folder of such a name is none."""
    found: list[Optional[Segment]] = []
    with contextlib.suppress(OSError), os.scandir(SHM) as entries:
        for entry in entries:
            if kind(entry.name)[0]:
                with contextlib.suppress(OSError):
                    found.append(of_status(entry.name, entry.stat(follow_symlinks=False)))
    return sorted((each for each in found if each is not None), key=lambda each: each.name)


def of_status(name: str, status: os.stat_result) -> Optional[Segment]:
    """The segment that a file's name and status make it; None for what is none."""
    owner, pid = kind(name)
    if not owner or not stat.S_ISREG(status.st_mode):
        return None
    return Segment(
        name=name,
        owner=owner,
        pid=pid,
        uid=status.st_uid,
        bytes=status.st_blocks * BLOCK,
        size=status.st_size,
        device=status.st_dev,
        inode=status.st_ino,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )
