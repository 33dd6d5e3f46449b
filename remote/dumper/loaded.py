"""`<dump folder>/.loaded/<pid>.json`: what this process loaded, so that anybody can tell patched from running."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from types import FrameType
from typing import Any, Optional

from .files import replace_json
from .problem import Problem
from .process import alive, start_ticks
from .request import Origin


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


def record(
    folder: str, origin: Origin, model_file: Optional[str], started: float, problem: Optional[Problem] = None
) -> None:
    """problem: why nothing of this server can be dumped, as far as it is known by now."""
    value: dict[str, Any] = {
        "pid": origin.pid,
        "start_ticks": start_ticks(origin.pid),
        "dumper_version": origin.dumper_version,
        "dumper_digest": origin.dumper_digest,
        "model_file": model_file,
        "model_sha256": _sha256(model_file),
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
        place = os.path.join(folder, kind)
        for name in os.listdir(place) if os.path.isdir(place) else ():
            pid = name.partition(".")[0]
            if pid.isdigit() and not alive(int(pid), _recorded_ticks(folder, pid)):
                _remove(os.path.join(place, name))


def _recorded_ticks(folder: str, pid: str) -> Optional[int]:
    try:
        with open(os.path.join(folder, ".loaded", f"{pid}.json"), "rb") as file:
            ticks = json.load(file)["start_ticks"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return ticks if isinstance(ticks, int) else None


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # another process of this server may have been quicker
        os.unlink(path)


def _sha256(path: Optional[str]) -> Optional[str]:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None
