"""Numbers as the screen writes them."""

from __future__ import annotations

import math

GIB = 1024**3


def count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def short(value: float) -> str:
    """At most four characters and a prefix: 812, 7.3 k, 128 k, 1.2 M."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            scaled = value / limit
            return (f"{scaled:.0f}" if scaled >= 100 else f"{scaled:.1f}") + unit
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def gib(value: float) -> str:
    """Bytes as a number of GiB, for memory, which is sold and shown in powers of 1024."""
    scaled = value / GIB
    if not value:
        return "0"
    return f"{scaled:.0f}" if scaled >= 100 else f"{scaled:.1f}" if scaled >= 1 else f"{scaled:.2f}"


def age(seconds: float) -> str:
    """How long ago, in one unit: now, 5 s, 3 min, 2 h, 4 d."""
    if seconds < 1:
        return "now"
    for unit, size, upto in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86400)):
        if seconds < upto:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86400):,} d"


def clock(seconds: float) -> str:
    """A running time: 0:43, 4:10, 2:14:07."""
    total = int(max(seconds, 0))
    hours, minutes = divmod(total // 60, 60)
    return f"{hours}:{minutes:02}:{total % 60:02}" if hours else f"{minutes}:{total % 60:02}"


def until(seconds: float) -> str:
    """A rough time to come: 40 s, 41 min, 3.2 h."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours / 24:.0f} d"
