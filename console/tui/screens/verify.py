"""Every request in the folder verified: results as they come, the worst first."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from console.tui.screens.page import Page, keys
from console.tui.text import line
from console.tui.verification import Verification
from console.tui.widgets.footer import KeyFooter
from console.tui.widgets.header import Header
from console.tui.widgets.painted import rule
from console.tui.widgets.verified import VerifiedTable, found, progress_lines

TAKE_EVERY = 0.1  # seconds


class VerifyScreen(Page[None]):
    """It ends with its page: Esc cancels it, and leaves once it has ended."""

    BINDINGS: ClassVar[list[BindingType]] = keys("copy", "dumps.show")
    AUTO_FOCUS = "#verified"

    def __init__(self, run: Verification) -> None:
        super().__init__()
        self.run = run

    def compose(self) -> ComposeResult:
        yield Header(self.console.picture, id="header")
        yield Static(id="sheet-title")
        yield Static(id="verify-progress")
        yield VerifiedTable(self.run, id="verified")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._verify()
        self._taking = self.set_interval(TAKE_EVERY, self._take)
        self.look()

    def on_unmount(self) -> None:
        self.run.stop()

    def on_resize(self) -> None:
        self.look()

    @work
    async def _verify(self) -> None:
        await self.run.run(self.console)
        self._taking.stop()
        self.look()

    def _take(self) -> None:
        if self.run.take(self.console.picture.clock.monotonic()):
            self.look()

    def draw(self) -> None:
        super().draw()
        width = self.size.width
        now = self.console.picture.clock.monotonic()
        title = rule("Verify every request", width)
        self.query_one("#sheet-title", Static).update(title)
        lines = progress_lines(self.run, now, width - 2)
        self.query_one("#verify-progress", Static).update(Content("\n").join(lines))
        self.query_one(VerifiedTable).look()

    def do_back(self) -> None:
        if self.run.stop():
            self.look()
        else:
            self.dismiss(None)

    def do_dumps_show(self) -> None:
        number = self.query_one(VerifiedTable).number
        if number is None:
            self.notify("There is no request to open.")
        else:
            self.post_message(VerifiedTable.Opened(number))

    def do_copy(self) -> None:
        now = self.console.picture.clock.monotonic()
        lines = [content.plain.strip() for content in progress_lines(self.run, now, 200)]
        listed = (self.run.at(index) for index in range(len(self.run)))
        rows = (
            f"req_{result.number}\t{result.verdict.value}\t{line(found(result), 2000)}".rstrip() for result in listed
        )
        self.console.copy("\n".join([*lines, *rows]))
