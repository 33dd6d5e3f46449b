"""Remote text is hostile; numbers are for people."""

from __future__ import annotations

import pytest

from console.text import harmless, moment, size, span
from remote.wire.amounts import age


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("read [/dev/shm] failed [/foo]", "read [/dev/shm] failed [/foo]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link", "link"),
        ("\x9b2Jx", "x"),
        ("a\x00b\rc", "a�b�c"),
        ("\u202egnp.exe", "�gnp.exe"),
        (b"\xff".decode("utf-8", "surrogateescape"), "�"),
        ("a\tb", "a    b"),
    ],
)
def test_harmless(hostile: str, shown: str) -> None:
    assert harmless(hostile) == shown


def test_a_line_without_end_is_cut() -> None:
    assert len(harmless("x" * 10_000_000)) == 2001


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (144_859, "145 KB"),
        (1499, "1.5 KB"),
        (5_030_000_000_000, "5.0 TB"),
        (999_700_000, "1.0 GB"),
        (2.5e18, "2500 PB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (34.4, "34 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (8e6, "93 d")],
)
def test_age(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.42, "0.4 s"), (34.4, "34 s"), (250, "4:10"), (8047, "2:14:07"), (273600, "3 d 4 h")],
)
def test_span(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1796040191.4, "2026-11-30 12:03:11 UTC"), (1e300, "?"), (float("nan"), "?")]
)
def test_moment(seconds: float, text: str) -> None:
    assert moment(seconds) == text
