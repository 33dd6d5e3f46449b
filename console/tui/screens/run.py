"""An action while it runs, step by step, and its end: what the second look saw."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from console.text import span
from console.tui import ink
from console.tui.format import clock
from console.tui.run import Run
from console.tui.screens.page import Sheet
from console.tui.sheet import check_lines, error_lines, hang, heading
from console.tui.text import cells, line, plain
from console.tui.widgets.dumps import DumpTable
from remote.wire.dumps import DumpTest
from remote.wire.plan import StepResult

LEAST = 40  # cells for a step's detail beside it; where there are less it goes below, so that paths stay whole


class RunScreen(Sheet[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", show=False)]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def title_words(self) -> str:
        return self.run.title

    def lines(self, width: int) -> list[Content]:
        """Once it has ended: how, what the second look saw, what can be done next; only then what was done."""
        run = self.run
        if run.ended is None:
            running = self.console.picture.clock.monotonic() - run.started
            steps = [*self._steps(tuple(run.steps), width), Content()] if run.steps or run.planned else []
            return [Content(), *steps, Content.styled(f"  running for {clock(running)}", ink.MUTED)]
        lines = [Content(), *self._end(width, run.ended - run.started)]
        if run.checks:
            lines += [*heading("Second look" if run.planned else "Checks"), *check_lines(run.checks, width)]
        lines += self.offer(width)
        if run.besides:
            lines += [*heading("Steps"), *self._steps(run.besides, width)]
        return lines

    def offer(self, width: int) -> list[Content]:  # noqa: ARG002 - for those that have something to offer
        """What can be done next from this page."""
        return []

    def _steps(self, done: tuple[StepResult, ...], width: int) -> list[Content]:
        run = self.run
        titles = [step.title for step in done] + [step.title for step in run.planned]
        wide = min(max((len(line(title, 60)) for title in titles), default=10), 44)
        lines: list[Content] = []
        for step in done:
            lines += _step(step, wide, width)
        for index, waiting in enumerate(run.waiting):
            under_way = index == 0
            sign, style = ("▸", ink.KEY) if under_way else ("·", ink.MUTED)
            lines += hang(Content.styled(f"  {sign}  ", style), plain(waiting.title, style, 200), width)
        return lines

    def _end(self, width: int, seconds: float) -> list[Content]:
        run = self.run
        if run.error is not None:
            return error_lines(run.error, width)
        sign, style = ("✓", ink.GOOD) if run.ok else ("✗", ink.BAD)
        summary = hang(Content.styled(f"  {sign} ", f"bold {style}"), plain(run.summary, f"bold {style}", 1000), width)
        took = Content.styled(f"    in {span(seconds)}", ink.MUTED)
        if isinstance(run.result, DumpTest) and run.result.number is not None:
            took += Content.assemble("   ", ("↵", f"bold {ink.KEY}"), f" opens req_{run.result.number}")
        return [*summary, took]

    def action_open(self) -> None:
        result = self.run.result
        if isinstance(result, DumpTest) and result.number is not None:
            self.dismiss(None)
            self.app.post_message(DumpTable.Opened(result.number))
        else:
            self.console.refuse("enter")


def _step(step: StepResult, wide: int, width: int) -> list[Content]:
    sign, style = ("✓", ink.GOOD) if step.ok else ("✗", ink.BAD)
    took = Content.styled(f"{step.seconds:6.1f} s", ink.MUTED)
    head = Content.assemble(("  " + sign, style), "  ", cells(plain(step.title, longest=200), wide), took, "  ")
    detail = plain(step.detail, ink.MUTED if step.ok else style, 2000)
    if width - head.cell_length >= LEAST:
        return hang(head, detail, width)
    return [head, *(hang(Content("     "), detail, width) if step.detail else [])]
