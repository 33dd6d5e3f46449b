"""The whole log: follows, stops where the reader scrolls up and counts what came since, finds text."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from console.tui import ink
from console.tui.format import count
from console.tui.screens.page import Page, keys
from console.tui.widgets.footer import KeyFooter
from console.tui.widgets.header import Header
from console.tui.widgets.log import LogView
from console.tui.widgets.painted import rule


class LogScreen(Page[None]):
    BINDINGS: ClassVar[list[BindingType]] = keys(where="log")
    AUTO_FOCUS = "#whole-log"

    def compose(self) -> ComposeResult:
        picture = self.console.picture
        yield Header(picture, id="header")
        yield Static(id="sheet-title")
        yield LogView(picture, id="whole-log")
        yield Input(placeholder="find in the log", id="search", compact=True)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#search").display = False
        self.watch(self.query_one(LogView), "scroll_y", self._title, init=False)

    def draw(self) -> None:
        super().draw()
        self.query_one(LogView).look()
        self._title()

    def _title(self) -> None:
        view, picture = self.query_one(LogView), self.console.picture
        path = Content.styled(picture.log.path or "no log yet", ink.MUTED)
        if view.following:
            state = Content.styled(f"{count(len(picture.log.lines))} lines · following", ink.GOOD)
        else:
            missed = f" · +{count(view.missed)} lines" if view.missed else ""
            state = Content.styled(f"paused{missed} · f follows", ink.WARN)
        self.query_one("#sheet-title", Static).update(
            rule("Log", self.size.width, said=path, right=state, stale=picture.stale)
        )

    def do_log_follow(self) -> None:
        if self.query_one(LogView).following:
            self.notify("The newest line is in view already, and stays so.", timeout=3)
        self.query_one(LogView).follow()
        self._title()

    def do_log_search(self) -> None:
        box = self.query_one("#search", Input)
        box.display = True
        box.focus()

    @on(Input.Submitted, "#search")
    def _search(self, event: Input.Submitted) -> None:
        if event.value:
            self._find(event.value, -1)
        else:
            self._forget()
        self.query_one(LogView).focus()

    def do_log_next(self) -> None:
        self._find(self.query_one("#search", Input).value, 1)

    def do_log_previous(self) -> None:
        self._find(self.query_one("#search", Input).value, -1)

    def _find(self, needle: str, step: int) -> None:
        if not self.query_one(LogView).find(needle, step):
            words = f"No other line with {needle!r} that way." if needle else "Nothing is looked for yet: / finds text."
            self.notify(words, timeout=3)
        self._title()

    def _forget(self) -> None:
        box = self.query_one("#search", Input)
        box.value, box.display = "", False
        self.query_one(LogView).find("")

    def do_back(self) -> None:
        if self.query_one("#search", Input).display:
            self._forget()
            self.query_one(LogView).focus()
        else:
            self.dismiss(None)
