"""Hostile text becomes harmless text; numbers read as people write them."""

from __future__ import annotations

import time

import pytest
from textual.content import Content

from console.tui import format, ink  # noqa: A004
from console.tui.text import LINES, block, cells, line
from tests.ui.scenes import HOSTILE


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (HOSTILE, "read [/dev/shm] failed [/foo] red  nul� �� [@click=app.quit]x[/]"),
        ("a\tb", "a    b"),
        ("two\nlines", "two⏎lines"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x9b31mred", "red"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\u202eevil", "�evil"),
        ("\udcff\ud800", "��"),
        ("a\u2028b", "ab"),
        (7, "7"),
        (None, "None"),
    ],
)
def test_line(given: object, shown: str) -> None:
    assert line(given) == shown


def test_ten_megabytes_are_cut_before_they_are_looked_at() -> None:
    began = time.process_time()
    assert line("\x1b[31m" * 2_000_000, 100) == "" or len(line("x" * 10_000_000, 100)) == 101
    assert len(line("x" * 10_000_000, 100)) == 101
    assert time.process_time() - began < 2


def test_block_keeps_lines_and_says_what_it_left_out() -> None:
    text = block("\n".join(str(number) for number in range(LINES + 3)))
    assert text.split("\n")[-1] == "… 3 lines more"
    assert block("a\x1b[1mb\r\nc") == "ab\nc"


@pytest.mark.parametrize("text", ["short", "a text that is too long", "宽字符宽字符宽字符", ""])
@pytest.mark.parametrize("right", [True, False])
def test_cells_fill_exactly(text: str, right: bool) -> None:
    assert cells(Content(text), 10, right=right).cell_length == 10


@pytest.mark.parametrize(
    ("function", "value", "shown"),
    [
        (format.count, 1284, "1,284"),
        (format.count, None, "–"),
        (format.short, 3.1, "3.1"),
        (format.short, 812, "812"),
        (format.short, 7312, "7.3 k"),
        (format.short, 128_000, "128 k"),
        (format.short, 1_200_000, "1.2 M"),
        (format.gib, 0, "0"),
        (format.gib, 83.1 * format.GIB, "83.1"),
        (format.gib, 504 * format.GIB, "504"),
        (format.age, 0.4, "now"),
        (format.age, 59.9, "59 s"),
        (format.age, 61, "1 min"),
        (format.age, 7300, "2 h"),
        (format.age, 86400 * 4, "4 d"),
        (format.clock, 43, "0:43"),
        (format.clock, 8047, "2:14:07"),
        (format.clock, -5, "0:00"),
        (format.until, 40, "40 s"),
        (format.until, 2460, "41 min"),
        (format.until, 11_520, "3.2 h"),
        (format.until, 86400 * 6, "6 d"),
    ],
)
def test_numbers(function: object, value: float, shown: str) -> None:
    assert callable(function)
    assert function(value) == shown


@pytest.mark.parametrize("fraction", [-1.0, 0.0, 0.001, 0.5, 0.999, 1.0, 7.0])
def test_bars_are_as_wide_as_asked(fraction: float) -> None:
    assert ink.bar(fraction, 20).cell_length == 20
    assert ink.split_bar(((fraction, ink.BAR), (fraction, ink.BAR_OTHER)), 20).cell_length == 20


def test_a_part_that_is_there_is_seen() -> None:
    bar = ink.split_bar(((0.0001, ink.BAR), (0.0, ink.BAR_OTHER)), 20)
    assert [(span.style, span.end - span.start) for span in bar.spans if span.end > span.start] == [
        (ink.BAR, 1),
        (ink.TRACK, 19),
    ]
