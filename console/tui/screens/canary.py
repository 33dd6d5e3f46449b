"""The canary while it runs, and its end: the verdict, and each check with what it found and what it tolerates."""

from __future__ import annotations

from textual.content import Content

from console.operations.verdicts import CANCELLED, NAMES, WAITING, WORDS
from console.text import span
from console.tui import ink
from console.tui.format import clock
from console.tui.screens.run import RunScreen
from console.tui.sheet import check_lines, error_lines, hang
from console.tui.text import cells, line, plain
from remote.wire.dumps import Canary
from remote.wire.plan import StepResult, Verdict

MARKS = {**ink.VERDICTS, Verdict.UNKNOWN: ("–", ink.MUTED)}  # a check that could not be made


class CanaryScreen(RunScreen):
    """Esc cancels it, and leaves once it was cancelled or has ended."""

    def lines(self, width: int) -> list[Content]:
        run = self.run
        if run.error is not None:
            return [Content(), *_steps(tuple(run.steps), width), Content(), *error_lines(run.error, width)]
        if isinstance(run.result, Canary):
            checks = check_lines(run.result.checks, width, MARKS)
            besides = [Content(), *_steps(run.besides, width)] if run.besides else []
            verdict, tolerances = _verdict(run.result, width), _tolerances(run.result, width)
            return [Content(), *verdict, Content(), *checks, *tolerances, *besides]
        return [Content(), *self._under_way(width), Content(), *_steps(tuple(run.steps), width)]

    def _under_way(self, width: int) -> list[Content]:
        if self.run.cancel is not None and self.run.cancel.asked:
            words = "cancelling: no further request is sent, and the one under way is given a few seconds"
            return hang(Content("  "), Content.styled(words, ink.WARN), width)
        running = clock(self.console.picture.clock.monotonic() - self.run.started)
        words = "four requests go through the server" if self.run.steps else "waiting for the first answer"
        lines = [Content.styled(f"  {words}, for {running}   esc cancels", ink.MUTED)]
        if not self.run.steps:
            lines += hang(Content("  "), Content.styled(WAITING, ink.MUTED), width)
        return lines

    def do_back(self) -> None:
        if self.run.stop():
            self.look()
        else:
            self.dismiss(None)


def _verdict(found: Canary, width: int) -> list[Content]:
    sign, style = MARKS[found.verdict]
    style = style if found.verdict is not Verdict.UNKNOWN else ink.WARN
    words = CANCELLED if found.stopped else WORDS[found.verdict]
    head = Content.styled(f"  {sign} {NAMES[found.verdict]}", f"bold {style}")
    lines = hang(head + "   ", Content.styled(words, style), width)
    kept = [] if found.ok or found.stopped else [f"req_{number}" for number in found.dumps]
    dumps = f" · its dumps are left to be looked at: {', '.join(kept)}" if kept else ""
    return [*lines, *hang(Content("    "), Content.styled(f"in {span(found.seconds)}{dumps}", ink.MUTED), width)]


def _tolerances(found: Canary, width: int) -> list[Content]:
    if not found.tolerances:
        return []
    head = Content.styled("  tolerances  ", ink.MUTED)
    return [Content(), *hang(head, plain(found.tolerances, ink.MUTED, 1000), width)]


def _steps(steps: tuple[StepResult, ...], width: int) -> list[Content]:
    """As they come it is only known which are well; the verdict on the others is a part of the end."""
    wide = min(max((len(line(step.title, 60)) for step in steps), default=10), 28)
    return [part for step in steps for part in _step(step, wide, width)]


def _step(step: StepResult, wide: int, width: int) -> list[Content]:
    sign, style = ("✓", ink.GOOD) if step.ok else ("!", ink.WARN)
    head = Content.assemble("  ", (sign, style), "  ", cells(plain(step.title, longest=200), wide), "  ")
    return hang(head, plain(step.detail, ink.MUTED, 2000), width)
