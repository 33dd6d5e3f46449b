"""The titled rules over the two lists: the dumps with their counts and rates, the log with whether it follows."""

from __future__ import annotations

from textual.content import Content

from console.text import size
from console.tui import ink
from console.tui.format import count, short
from console.tui.text import line
from console.tui.widgets.painted import Painted, rule


class DumpsRule(Painted):
    def paint(self, width: int) -> Content:
        counts = self.picture.dumps.counts
        parts = [Content(f"{count(counts.complete)} complete" if counts.there or not counts.given else "none here now")]
        if counts.writing:
            parts.append(Content.styled(f"{count(counts.writing)} writing", ink.KEY))
        if counts.bad:
            parts.append(Content.styled(f"{count(counts.bad)} bad", ink.BAD))
        if counts.older:
            parts.append(Content.styled(f"{count(counts.older)} older{' not looked at' * (width >= 100)}", ink.MUTED))
        if counts.odd_total:
            parts.append(Content.styled(f"{count(counts.odd_total)} odd names", ink.WARN))
        rates = [f"{short(counts.requests_per_s)} req/s", f"{short(counts.tokens_per_s)} tok/s"]
        if width >= 76:
            rates.append(f"{size(counts.bytes_per_s)}/s")
        right = Content.styled(" · ".join(rates), ink.MUTED) if counts.requests_per_s else Content()
        dumps = self.picture.dumps
        if dumps.needle:
            right = Content.styled(f"{count(len(dumps))} match {line(dumps.needle, 30)!r}", ink.KEY)
        said = Content(" · ").join(parts) if self.picture.dumps_seen and not dumps.problem else Content()
        if self.picture.stale is not None:
            said = ink.faded(said)
        return rule("Dumps", width, said=said, right=right, stale=self.picture.stale)


class LogRule(Painted):
    def paint(self, width: int) -> Content:
        path = Content.styled(self.picture.log.path, ink.MUTED)
        return rule("Log", width, said=path, stale=self.picture.stale)
