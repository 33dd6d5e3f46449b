"""Pieces of a page of text: headings, pairs, checks, errors, diffs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content

from console.errors import OperatorError
from console.tui import ink
from console.tui.text import block, cells, line, plain
from remote.wire.plan import Check, Verdict

Lines = list[Content]


def heading(title: str) -> Lines:
    return [Content(), Content.styled(f"  {title}", ink.STRONG)]


def hang(head: Content, body: Content, width: int) -> Lines:
    """`body` wrapped into `width` cells beside `head`, its further lines under its first."""
    indent = head.cell_length
    wrapped = body.wrap(max(width - indent, 10)) or [Content()]
    return [(head if index == 0 else Content(" " * indent)) + part for index, part in enumerate(wrapped)]


def pair(name: str, value: object, width: int, *, wide: int = 14, style: str = ink.PLAIN) -> Lines:
    return hang(cells(Content.styled(f"  {line(name, 40)}", ink.MUTED), wide + 2), plain(value, style, 2000), width)


def sentences(texts: Iterable[str], width: int, sign: str = "·", style: str = ink.MUTED) -> Lines:
    lines: Lines = []
    for text in texts:
        lines += hang(Content.styled(f"  {sign} ", style), plain(text, style, 2000), width)
    return lines


def check_lines(checks: Iterable[Check], width: int, marks: Mapping[Verdict, tuple[str, str]] = ink.VERDICTS) -> Lines:
    """A line per check: sign, name, what was found; under it the remedy where there is one to take."""
    checks = tuple(checks)
    names = min(max((len(line(check.name, 60)) for check in checks), default=0), 28)
    lines: Lines = []
    for check in checks:
        head = Content.assemble("  ", marks[check.verdict], "  ", cells(plain(check.name, longest=60), names), "  ")
        loud = check.verdict in (Verdict.BAD, Verdict.WARN)
        found = plain(check.found, ink.VERDICTS[check.verdict][1] if loud else ink.MUTED, 2000)
        lines += hang(head, found, width)
        if check.remedy and check.verdict is not Verdict.OK:
            lines += hang(Content(" " * (names + 7)) + "→ ", plain(check.remedy, longest=2000), width)
    return lines


def error_lines(error: OperatorError, width: int) -> Lines:
    lines = [Content.styled(f"  ✗ {line(error.title, 200)}", f"bold {ink.BAD}"), Content()]
    for text in block(error.what, 4000).split("\n"):
        lines += hang(Content("    "), Content(text), width)
    if error.remedy:
        lines.append(Content())
        for text in block(error.remedy, 4000).split("\n"):
            lines += hang(Content("  → "), Content(text), width)
    return lines


def diff_lines(diff: str) -> Lines:
    return [Content.styled(f"  {text}", _diff_style(text)) for text in block(diff).split("\n")]


def _diff_style(text: str) -> str:
    if text.startswith(("+++", "---")):
        return ink.STRONG
    return {"+": ink.GOOD, "-": ink.BAD, "@": ink.KEY}.get(text[:1], ink.MUTED)
