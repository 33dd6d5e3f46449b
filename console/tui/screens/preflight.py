"""What stands between now and a good start, on one page."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content

from console.errors import OperatorError
from console.operations import calls
from console.tui import ink
from console.tui.screens.page import Sheet
from console.tui.sheet import check_lines, error_lines
from console.tui.threads import in_thread
from remote.wire.plan import Verdict
from remote.wire.server import Preflight


class PreflightScreen(Sheet[bool]):
    """gate: it stands before a start; Enter then goes on to the plan all the same, Esc goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "go_on", show=False)]

    def __init__(self, found: Preflight | None = None, *, gate: bool = False) -> None:
        super().__init__()
        self.found = found
        self.gate = gate
        self.error: OperatorError | None = None

    def on_mount(self) -> None:
        super().on_mount()
        if self.found is None:
            self._ask()

    @work
    async def _ask(self) -> None:
        try:
            self.found = await in_thread(calls.preflight, self.console.agent, self.console.picture.profile)
        except OperatorError as error:
            self.error = error
        self.look()

    def title_words(self) -> str:
        return "Preflight"

    def lines(self, width: int) -> list[Content]:
        if self.error is not None:
            return [Content(), *error_lines(self.error, width)]
        if self.found is None:
            return [Content(), Content.styled("  looking …", ink.MUTED)]
        key = f"bold {ink.KEY}"
        ways = Content.assemble("    ", ("↵", key), " see the plan all the same   ", ("esc", key), " leave it")
        return [
            Content(),
            self._verdict(self.found),
            *([ways] if self.gate else []),
            Content(),
            *check_lines(self.found.checks, width),
        ]

    def _verdict(self, found: Preflight) -> Content:
        bad = sum(check.verdict is Verdict.BAD for check in found.checks)
        doubts = sum(check.verdict in (Verdict.WARN, Verdict.UNKNOWN) for check in found.checks)
        if bad:
            words = "1 thing stands" if bad == 1 else f"{bad} things stand"
            return Content.styled(f"  ✗ {words} in the way of a start", f"bold {ink.BAD}")
        if doubts:
            words = "1 doubt" if doubts == 1 else f"{doubts} doubts"
            return Content.styled(f"  ! Nothing stands in the way; {words}", f"bold {ink.WARN}")
        return Content.styled("  ✓ Clear to start", f"bold {ink.GOOD}")

    def action_go_on(self) -> None:
        if self.gate:
            self.dismiss(True)
        else:
            self.console.refuse("enter")
