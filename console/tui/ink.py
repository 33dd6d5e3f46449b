"""Colours by meaning, and the small drawings made of characters."""

from __future__ import annotations

from textual.content import Content, Span

from remote.wire.dumps import DumpState
from remote.wire.plan import Verdict
from remote.wire.server import Phase

PLAIN = ""
STRONG = "bold"
MUTED = "$foreground-muted"
KEY = "$accent"
GOOD = "$success"
WARN = "$warning"
BAD = "$error"
TRACK = "$track"  # the empty part of a bar, and the lines between panels
BAR = "$bar"
BAR_OTHER = "$bar-other"

VERDICTS: dict[Verdict, tuple[str, str]] = {
    Verdict.OK: ("✓", GOOD),
    Verdict.WARN: ("!", WARN),
    Verdict.BAD: ("✗", BAD),
    Verdict.UNKNOWN: ("?", MUTED),
}

PHASES: dict[Phase, tuple[str, str]] = {
    Phase.STOPPED: ("○", MUTED),
    Phase.LOADING: ("◐", WARN),
    Phase.STARTING: ("◐", WARN),
    Phase.READY: ("●", GOOD),
    Phase.UNHEALTHY: ("✗", BAD),
    Phase.CRASHED: ("✗", BAD),
    Phase.ORPHANS: ("✗", BAD),
    Phase.PORT_HELD: ("✗", BAD),
}

STOPPING = ("◐", KEY)  # as the operator wishes

DUMPS: dict[DumpState, tuple[str, str]] = {
    DumpState.COMPLETE: ("✓", GOOD),
    DumpState.WRITING: ("writing", KEY),
    DumpState.PARTIAL: ("! partial", WARN),
    DumpState.CORRUPT: ("✗ corrupt", BAD),
    DumpState.ERROR: ("✗ error", BAD),
    DumpState.GONE: ("gone", MUTED),
}

_LEVELS = "▁▂▃▄▅▆▇█"


def mark(verdict: Verdict) -> Content:
    return Content.styled(*VERDICTS[verdict])


def bar(fraction: float, width: int, style: str = BAR) -> Content:
    """A line of `width` cells that is filled by `fraction`, exact to half a cell."""
    halves = round(min(max(fraction, 0.0), 1.0) * width * 2)
    full, half = divmod(halves, 2)
    filled = "━" * full + ("╸" if half else "")
    return Content.assemble((filled, style), ("━" * (width - len(filled)), TRACK))


def split_bar(parts: tuple[tuple[float, str], ...], width: int) -> Content:
    """Several fractions side by side; what they leave over is empty track. A part that is there gets a cell."""
    pieces: list[tuple[str, str]] = []
    left = width
    for fraction, style in parts:
        wanted = max(round(fraction * width), 1 if fraction > 0 else 0)
        taken = min(wanted, left)
        pieces.append(("━" * taken, style))
        left -= taken
    return Content.assemble(*pieces, ("━" * left, TRACK))


def faded(content: Content) -> Content:
    """`content` in one muted colour, but for what draws by being darker still."""
    drawn = [span for span in content.spans if span.style in (TRACK, BAR_OTHER)]
    return Content(content.plain, [Span(0, len(content), MUTED), *drawn])


def sparkline(values: tuple[float, ...], highest: float, style: str = BAR_OTHER) -> Content:
    """The last values as columns; each 0…highest."""
    top = len(_LEVELS) - 1
    levels = (min(max(round(value / highest * top), 0), top) for value in values)
    return Content.styled("".join(_LEVELS[level] for level in levels), style)
