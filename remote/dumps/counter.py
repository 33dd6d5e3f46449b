"""The dumper's counter: a number that it has not claimed yet is no dump's, and never was one's."""

from __future__ import annotations

import os
from typing import Optional

from .files import read_small

_LIMIT = 64  # bytes; the dumper writes 21


def never_was(dump_dir: str, number: int) -> str:
    """What to say of a dump that is not there when there was none by that number; empty where that isn't known."""
    unclaimed = _next(dump_dir)
    return (
        f"was never there: the next request is req_{unclaimed}" if unclaimed is not None and number >= unclaimed else ""
    )


def _next(dump_dir: str) -> Optional[int]:
    try:
        text = read_small(os.path.join(dump_dir, ".counter"), _LIMIT).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
