"""The dumper's counter: a number that it has not claimed yet is no dump's, and never was one's."""

from __future__ import annotations

import os
from typing import Optional

from .files import read_small

_LIMIT = 64  # bytes; the dumper writes 21
_DIGITS = 15  # without zeros in front; more was never counted


def unclaimed(dump_dir: str) -> Optional[int]:
    """The number of the next request; None where no counter tells."""
    try:
        text = read_small(os.path.join(dump_dir, ".counter"), _LIMIT).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text.lstrip(b"0")) <= _DIGITS else None


def never_was(dump_dir: str, number: int) -> str:
    """What to say of a dump that is not there when there was none by that number; empty where that isn't known."""
    following = unclaimed(dump_dir)
    if following is None or number < following:
        return ""
    return f"was never there: the next request is req_{following}"
