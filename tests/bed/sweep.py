"""Kill every process that has BED=1 in its environment, and those that descend from it: run as sweep.py."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MARK = b"BED=1"


def marked(folder: Path) -> bool:
    """Also of a process whose main thread is dead: then its threads still tell."""
    for environment in folder.glob("task/*/environ"):
        with contextlib.suppress(OSError):
            if MARK in environment.read_bytes().split(b"\0"):
                return True
    return False


for entry in Path("/proc").iterdir():
    if entry.name.isdigit() and int(entry.name) != os.getpid() and marked(entry):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(entry.name), 9)
