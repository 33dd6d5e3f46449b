"""`.loaded/<pid>.json` beside the dumps: what live processes say they loaded. Anybody may have written these files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Optional

from remote import processes
from remote.processes import Identity, Process

from .files import read_small


def live(dump_dir: str, limit: int) -> Iterator[tuple[Process, dict[str, Any]]]:
    """Each process that lives, and its claim, by file name. limit: bytes of one; a larger one is nobody's."""
    folder = os.path.join(dump_dir, ".loaded")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return
    for name in names:
        said = read(os.path.join(folder, name), limit)
        process = _author(said)
        if process is not None:
            yield process, said


def of_process(dump_dir: str, process: Process, limit: int) -> dict[str, Any]:
    """What this process says; empty when it says nothing, or an earlier one with its pid did."""
    said = read(os.path.join(dump_dir, ".loaded", f"{process.pid}.json"), limit)
    return said if said.get("start_ticks") == process.start_ticks else {}


def read(path: str, limit: int) -> dict[str, Any]:
    """The object in a small JSON file; empty when there is none to be read."""
    try:
        found = json.loads(read_small(path, limit))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _author(said: dict[str, Any]) -> Optional[Process]:
    pid, ticks = said.get("pid"), said.get("start_ticks")
    if not (isinstance(pid, int) and isinstance(ticks, int)):
        return None
    try:
        return processes.alive(Identity(pid, ticks))
    except OverflowError:
        return None
