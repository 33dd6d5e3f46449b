"""`<dump folder>/.loaded/<pid>.json`: what this process loaded, so that anybody can tell patched from running."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from types import FrameType, ModuleType
from typing import Any, Optional

from .files import opened, read_small, replace_json
from .problem import Problem
from .process import alive, start_ticks
from .request import Origin

_LARGEST = 1 << 16  # bytes of a claim


def importing_file(package: str) -> Optional[str]:
    """The file whose import of this package is under way: the patched model file."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        name, path = str(frame.f_globals.get("__name__", "")), str(frame.f_globals.get("__file__", ""))
        own = name.startswith("importlib.") or os.path.abspath(path).startswith(package + os.sep)
        if os.path.isfile(path) and not own:
            return os.path.realpath(path)
        frame = frame.f_back
    return None


def also_importing(package: str) -> list[str]:
    """The files that imported this package in the lines of the patch, as far as they have been imported by now."""
    me = sys.modules.get(package)
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    paths = [vars(module).get("__file__") for module in modules if me and vars(module).get("_HS_DUMP") is me]
    return [os.path.realpath(path) for path in paths if path]


def record(
    folder: str,
    origin: Origin,
    model_files: Mapping[str, Optional[str]],
    started: float,
    problem: Optional[Problem] = None,
) -> None:
    """model_files: their SHA-256 by path. problem: why nothing of this server can be dumped, as far as it is known."""
    value: dict[str, Any] = {
        "pid": origin.pid,
        "start_ticks": start_ticks(origin.pid),
        "dumper_version": origin.dumper_version,
        "dumper_digest": origin.dumper_digest,
        "model_files": dict(model_files),
        "python": sys.executable,
        "layers": list(origin.layers),
        "boot_id": origin.boot_id,
        "started": started,
        "problem": None if problem is None else {"cause": problem.cause, "detail": problem.detail},
    }
    replace_json(os.path.join(folder, ".loaded", f"{origin.pid}.json"), value)


def forget_dead(folder: str) -> None:
    """Remove what processes that ended left in `.loaded` and `.stats`."""
    for kind in (".loaded", ".stats"):
        with contextlib.suppress(OSError), opened(os.path.join(folder, kind)) as place:
            for name in os.listdir(place):
                pid = name.partition(".")[0]
                if pid.isdecimal() and not alive(int(pid), _recorded_ticks(folder, pid)):
                    _remove(name, place)


def _recorded_ticks(folder: str, pid: str) -> Optional[int]:
    try:
        ticks = json.loads(read_small(os.path.join(folder, ".loaded", f"{pid}.json"), _LARGEST))["start_ticks"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return ticks if isinstance(ticks, int) else None


def _remove(name: str, place: int) -> None:
    with contextlib.suppress(OSError):  # another process of this server may have been quicker
        os.unlink(name, dir_fd=place)


def sha256(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None
