"""Segments that are left in a /dev/shm of the test's own, and how they are judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from remote.telemetry import stale
from remote.wire.target import Target

TARGET = Target("/p", "/m")
ENDED = 4_194_305  # above any pid
HOLDING = Path(__file__).with_name("holding.py")
Hold = Callable[..., int]


def left(folder: Path, name: str, size: int = 4096) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    path.chmod(0o600)
    time.sleep(0.15)  # beyond the slack: what starts now is younger
    return path


def judged() -> dict[str, bool | None]:
    return {each.segment.name: each.stale for each in stale.survey().found}


def why(name: str) -> str:
    return next(each.why for each in stale.survey().found if each.segment.name == name)
