"""What the kernel tells of processes that it ended: its log, and the counter of the memory control group."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from pathlib import Path
from typing import Optional

from remote import processes

CGROUPS = Path("/sys/fs/cgroup")
READ_ALL = 3  # of syslog(2); changes nothing
LOG_BYTES = 1 << 20
LINE = re.compile(r"^(?:<\d+>)?\[ *(\d+\.\d+)\] (.*)$")
TELLING = re.compile(r"[Oo]ut of memory: Kill|NVRM: Xid")


def told(first: float, last: float) -> list[str]:
    """Lines of the kernel's log about memory and GPUs, logged between two times (seconds since the epoch).

    Empty where the log may not be read, as in most containers.
    """
    offset = time.time() - time.monotonic()  # the log's clock stops while the machine is suspended, as this one does
    found = (LINE.match(line) for line in _log().splitlines() if TELLING.search(line))
    return [match[2] for match in found if match and first <= float(match[1]) + offset <= last]


def _log() -> str:
    buffer = ctypes.create_string_buffer(LOG_BYTES)
    try:
        length = ctypes.CDLL(None, use_errno=True).klogctl(READ_ALL, buffer, LOG_BYTES)
    except (OSError, AttributeError):  # a C library without it
        return ""
    return buffer.raw[: max(0, length)].decode("utf-8", "replace")


def oom_counter(pid: int) -> Optional[str]:
    """The file that counts the processes ended for memory in the control group of `pid`, in a line `oom_kill N`."""
    group = processes.cgroup(pid).strip("/")
    for path in (CGROUPS / group / "memory.events", CGROUPS / "memory" / group / "memory.oom_control"):
        with contextlib.suppress(OSError):
            if "oom_kill " in path.read_text(encoding="ascii", errors="replace"):
                return os.fspath(path)
    return None
