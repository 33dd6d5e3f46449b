"""A unified diff, whole."""

from __future__ import annotations

from textual.content import Content

from console.tui import ink
from console.tui.screens.page import Sheet
from console.tui.sheet import diff_lines, sentences
from remote.wire.plan import Plan


class DiffScreen(Sheet[None]):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def title_words(self) -> str:
        return f"Diff of {self.plan.action}"

    def lines(self, width: int) -> list[Content]:
        if self.plan.diff:
            return diff_lines(self.plan.diff)
        words = "  No file would change." if not self.plan.needed else "  This plan edits no file."
        return [Content.styled(words, ink.MUTED), *sentences(self.plan.notes, width)]
