"""The numbers given to requests: one that was not given yet is no dump's, and never was one's."""

from __future__ import annotations

import os
from typing import Optional

from . import rows
from .files import read_small

_LIMIT = 64  # bytes; the dumper writes 21
_DIGITS = 15  # without zeros in front; more was never counted


def unclaimed(dump_dir: str) -> Optional[int]:
    """The number of the next request as the dumper's counter has it; None where no counter tells."""
    try:
        text = read_small(os.path.join(dump_dir, ".counter"), _LIMIT).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and len(text.lstrip(b"0")) <= _DIGITS else None


def following(dump_dir: str) -> int:
    """The number of the next request: without a counter one above the highest in the folder, as the dumper goes on."""
    told = unclaimed(dump_dir)
    return max(rows.numbers(dump_dir), default=-1) + 1 if told is None else told


def never_was(number: int, after: Optional[int]) -> str:
    """What to say of a dump that is not there when there was none by that number; empty where that isn't known.

    after: the number of the next request, as far as that is known.
    """
    if after is None or number < after:
        return ""
    newest = f"; the newest is req_{after - 1}" if after else ": nothing was dumped so far"
    return f"there is no request {number} yet{newest}"
