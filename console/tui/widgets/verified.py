"""A verification on the screen: how far it is and what it found in two lines, its results worst first, its end."""

from __future__ import annotations

from textual.content import Content

from console.operations.counts import longer, superseded
from console.text import size, span
from console.tui import ink
from console.tui.format import clock, count, short
from console.tui.sheet import Lines, check_lines, error_lines, hang, sentences
from console.tui.text import line, plain
from console.tui.verification import WORST_FIRST, Verification
from console.tui.widgets.table import Column, LineTable
from remote.wire.dumps import Verified, VerifyResult

VERDICTS: dict[Verified, tuple[str, str]] = {
    Verified.OK: ("✓ ok", ink.GOOD),
    Verified.WARN: ("! warn", ink.WARN),
    Verified.BAD: ("✗ bad", ink.BAD),
    Verified.UNVERIFIED: ("– unverified", ink.WARN),
    Verified.ERROR: ("✗ error", ink.BAD),
    Verified.WRITING: ("  writing", ink.KEY),
    Verified.GONE: ("  gone", ink.MUTED),
}
ALWAYS = (Verified.OK, Verified.WARN, Verified.BAD, Verified.UNVERIFIED)  # told also where there are none
COLUMNS = (
    Column("REQ", 8, right=True),
    Column("VERDICT", 12),
    Column("SIZE", 9, right=True, least=60),
    Column("CHECKS", 0),
)
SEPARATOR = Content.styled(" · ", ink.MUTED)


class VerifiedTable(LineTable):
    def __init__(self, verification: Verification, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(verification, COLUMNS, id=id)
        self.verification = verification

    def empty(self) -> Content:
        return Content.styled("no result yet" if self.verification.ended is None else "no result", ink.MUTED)

    def fields(self, index: int) -> dict[str, Content]:
        result = self.verification.at(index)
        words, style = VERDICTS[result.verdict]
        return {
            "REQ": Content(str(result.number)),
            "VERDICT": Content.styled(words, style),
            "SIZE": Content.styled(size(result.bytes), ink.MUTED),
            "CHECKS": plain(found(result), style, 500),
        }


def found(result: VerifyResult) -> str:
    """The checks that are not well, in a line."""
    return "; ".join(f"{check.name}: {check.found}" for check in result.checks)


def progress_lines(run: Verification, now: float, width: int) -> Lines:
    """How far it is, and the counts."""
    if run.error is not None:
        return error_lines(run.error, width)
    return [
        _end(run, width) if run.ended is not None else _under_way(run, now, width),
        counts(run),
        *_beside(run, width),
    ]


def _beside(run: Verification, width: int) -> Lines:
    """What its end says beside the counts."""
    if run.summary is None:
        return []
    said = (superseded(run.summary.superseded), longer(run.summary.longer), run.summary.note)
    return sentences(filter(None, said), width, "!", ink.WARN)


def counts(run: Verification) -> Content:
    parts = []
    for verdict in reversed(WORST_FIRST):
        many = run.counts[verdict]
        if many or verdict in ALWAYS:
            words, style = VERDICTS[verdict]
            parts.append(Content.styled(f"{count(many)} {words.split()[-1]}", style if many else ink.MUTED))
    if run.unlisted:
        parts.append(Content.styled(f"{count(run.unlisted)} counted, not listed", ink.MUTED))
    return Content("  ") + SEPARATOR.join(parts)


def _under_way(run: Verification, now: float, width: int) -> Content:
    if run.cancel.asked:
        return Content.styled("  cancelling …", ink.WARN)
    if run.total is None:
        return Content.styled(f"  learning what is usual, for {clock(now - run.started)} …   esc cancels", ink.MUTED)
    words = Content.assemble("  ", f"{count(run.done)} of {count(run.total)}")
    rates = run.rates()
    if rates is not None:
        words += Content.styled(f"  {short(rates[0])} dumps/s · {size(rates[1])}/s", ink.MUTED)
        if rates[0]:
            words += Content.styled(f" · {clock((run.total - run.done) / rates[0])} left", ink.MUTED)
    tail = Content.styled("   esc cancels", ink.MUTED)
    room = min(width - words.cell_length - tail.cell_length - 2, 40)
    bar = Content("  ") + ink.bar(run.done / run.total if run.total else 1.0, room) if room >= 8 else Content()
    return words + bar + tail


def _end(run: Verification, width: int) -> Content:
    summary = run.summary
    if summary is None:
        return Content()
    if summary.stopped:
        head = Content.styled(f"  ! cancelled after {count(run.done)} of {count(run.total or run.done)}", ink.WARN)
    elif not summary.counts:
        head = Content.styled("  no request is in the folder", ink.MUTED)
    elif summary.ok:
        head = Content.styled("  ✓ all well", f"bold {ink.GOOD}")
    elif summary.faulty:
        head = Content.styled("  ✗ not all well", f"bold {ink.BAD}")
    else:
        head = Content.styled("  – nothing is wrong, but not everything could be verified", f"bold {ink.WARN}")
    return head + Content.styled(f"   {told(run)}", ink.MUTED).truncate(max(width - head.cell_length, 0), ellipsis=True)


def told(run: Verification) -> str:
    """What was read, in which time, and what it was compared with."""
    summary = run.summary
    if summary is None:
        return ""
    norms = f" · norms: {line(summary.norms, 100)}" if summary.norms else ""
    return f"{summary.level.value}, {size(summary.bytes)} in {span(summary.seconds)}{norms}"


def single_lines(run: Verification, now: float, width: int) -> Lines:
    """The verification of one request, as a part of its page."""
    if run.error is not None:
        return error_lines(run.error, width)
    if run.ended is None:
        words = "cancelling …" if run.cancel.asked else f"looking at every number for {clock(now - run.started)} …"
        return [Content.styled(f"  {words}   esc cancels" if not run.cancel.asked else f"  {words}", ink.MUTED)]
    if not len(run):
        words = "cancelled" if run.summary and run.summary.stopped else "no result"
        return [Content.styled(f"  ! {words}", ink.WARN)]
    result = run.at(0)
    words, style = VERDICTS[result.verdict]
    head = hang(Content.styled(f"  {words.strip()}", f"bold {style}"), plain(f"  {told(run)}", ink.MUTED), width)
    return [*head, *check_lines(result.checks, width), *_beside(run, width)]
