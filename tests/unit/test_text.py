"""Remote text is hostile; numbers are for people."""

from __future__ import annotations

import pytest

from console.text import harmless, size, span


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
    [(0, "0 B"), (999, "999 B"), (144_859, "145 KB"), (1499, "1.5 KB"), (5_030_000_000_000, "5.0 TB")],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.42, "0.4 s"), (34.4, "34 s"), (250, "4:10"), (8047, "2:14:07"), (273600, "3 d 4 h")],
)
def test_span(seconds: float, text: str) -> None:
    assert span(seconds) == text
