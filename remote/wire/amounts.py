"""Amounts in words, the same on both sides of the link."""

from __future__ import annotations

UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
SPANS = (("d", 86400), ("h", 3600), ("min", 60))


def size(count: float) -> str:
    """Bytes in powers of 1000: `145 KB`, `4.6 TB`."""
    value = float(count)
    for unit in UNITS:
        if abs(value) < 999.5 or unit == UNITS[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"


def age(seconds: float) -> str:
    """How old something is, or how long it took, in one unit: `34 s`, `119 s`, `2 min`, `3 h`, `12 d`."""
    for unit, length in SPANS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
