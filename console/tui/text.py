"""The one way for remote text onto the screen: harmless, and as Content, never as markup."""

from __future__ import annotations

import re

from textual.content import Content

from console.text import one_line

# Harmless to a terminal, but they would hide text or shift its columns: zero-width, separators, selectors, tags.
_UNSEEN = re.compile("[\u200b-\u200d\u2028\u2029\u2060-\u2065\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]")
LINES = 5000


def line(value: object, longest: int = 500) -> str:
    """`value` as one line of harmless text, at most `longest` characters and a mark where more was."""
    return _UNSEEN.sub("", one_line(str(value), longest))


def block(value: object, longest: int = 200_000) -> str:
    """`value` as harmless text of at most LINES lines."""
    lines = str(value)[:longest].replace("\r\n", "\n").split("\n")
    kept = [line(text, 2000) for text in lines[:LINES]]
    if len(lines) > LINES:
        kept.append(f"… {len(lines) - LINES:,} lines more")
    return "\n".join(kept)


def plain(value: object, style: str = "", longest: int = 500) -> Content:
    """One harmless line, in one style."""
    return Content.styled(line(value, longest), style)


def cells(content: Content, width: int, *, right: bool = False) -> Content:
    """`content` in exactly `width` cells: cut with an ellipsis, or padded."""
    if content.cell_length > width:
        content = content.truncate(width, ellipsis=True)
    missing = width - content.cell_length
    return content.pad_left(missing) if right else content.pad_right(missing)
