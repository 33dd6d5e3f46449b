"""Memory still to be had here: by the control groups of this process, and by /proc/meminfo, which lxcfs fills in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from remote import processes

CGROUPS = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
UNLIMITED = 1 << 60  # version 1 writes 'no limit' as a number near 2**63
# Of version 1's memory.stat: the tightest limit of this group and those above it, which may be out of sight.
HIERARCHICAL = "hierarchical_memory_limit"


def headroom() -> Optional[int]:
    """Bytes of memory still to be had: the least over this process's control groups and /proc/meminfo (lxcfs)."""
    bounds = list(_cgroup_bounds())
    available = re.search(r"^MemAvailable:\s+(\d+) kB", _text(MEMINFO), re.MULTILINE)
    if available:
        bounds.append(int(available.group(1)) * 1024)
    return max(0, min(bounds)) if bounds else None


def _cgroup_bounds() -> Iterator[int]:
    """Limit less use of each memory control group from this process's own up to the root that can be seen."""
    group = processes.cgroup(os.getpid()).strip("/")
    for root, limit, use, reclaimable in (
        (CGROUPS, "memory.max", "memory.current", "inactive_file"),
        (CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        folder = root / group
        for place in (folder, *folder.parents):
            bound = _bound(place, limit, use, reclaimable)
            if bound is not None:
                yield bound
            if place == root:
                break


def _bound(folder: Path, limit: str, use: str, reclaimable: str) -> Optional[int]:
    most, used = _text(folder / limit).strip(), _text(folder / use).strip()
    if not (most.isdigit() and used.isdigit()):
        return None
    stat = _text(folder / "memory.stat")
    least = min(int(most), _value(stat, HIERARCHICAL) or UNLIMITED)
    return None if least >= UNLIMITED else least - int(used) + (_value(stat, reclaimable) or 0)


def _value(stat: str, name: str) -> Optional[int]:
    match = re.search(rf"^{name} (\d+)$", stat, re.MULTILINE)
    return int(match.group(1)) if match else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
