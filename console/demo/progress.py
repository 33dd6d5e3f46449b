"""How the demo says what it is doing while it takes its time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Progress:
    """stage: what is being done. detail: how far. seconds: since the whole work began."""

    stage: str
    detail: str
    seconds: float


OnProgress = Callable[[Progress], None]


class Reporter:
    """Hands progress on, with the time since it was made."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._began = time.monotonic()

    def __call__(self, stage: str, detail: str = "") -> None:
        self._on_progress(Progress(stage, detail, time.monotonic() - self._began))
