"""Remote text made harmless, and numbers made readable. Shared by the screen and the command line."""

from __future__ import annotations

import re
import time

from remote.wire import amounts

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST = 2000
LONGEST_SPAN = 1e11  # seconds: 3,000 years
size = amounts.size


def harmless(text: str, longest: int = LONGEST) -> str:
    """`text` without terminal escapes, control, direction and surrogate characters, cut to `longest` characters."""
    cut = text[: longest + 1]
    clean = CONTROLS.sub("�", ESCAPES.sub("", cut).replace("\t", "    "))
    return clean if len(cut) <= longest else clean[:longest] + "…"


def one_line(text: str, longest: int = LONGEST) -> str:
    """`harmless` text in one line: what stands behind a line break of theirs would pass for words of ours."""
    return harmless(text[: longest + 1].replace("\n", "⏎"), longest)


def moment(seconds: float) -> str:
    """A point in time, given in seconds since the epoch: `2026-01-31 09:05:00 UTC`; `?` for what is none."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "?"


def span(seconds: float) -> str:
    """A time span in its two largest parts: `0.4 s`, `34 s`, `4:10`, `2:14:07`, `3 d 4 h`; `?` for what is none."""
    if not abs(seconds) < LONGEST_SPAN:  # NaN is not either
        return "?"
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60}:{total % 60:02}"
    if total < 86400:
        return f"{total // 3600}:{total % 3600 // 60:02}:{total % 60:02}"
    return f"{total // 86400} d {total % 86400 // 3600} h"
