"""An error an operator can act on: what happened, where, and what to do next."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from console.errors import OperatorError
from console.tui import ink
from console.tui.screens.page import Dialog, keys
from console.tui.text import block, plain
from console.tui.widgets.footer import KeyFooter


class ErrorScreen(Dialog[None]):
    BINDINGS: ClassVar[list[BindingType]] = keys("copy")
    AUTO_FOCUS = "#close"

    def __init__(self, error: OperatorError) -> None:
        super().__init__()
        self.error = error

    def compose(self) -> ComposeResult:
        error = self.error
        with Vertical(id="dialog", classes="-bad"):
            yield Static(plain(f"✗ {error.title}", f"bold {ink.BAD}", 200), id="dialog-title")
            with VerticalScroll(id="dialog-body", can_focus=False):
                yield Static(Content(block(error.what, 20_000)))
                if error.remedy:
                    yield Static(Content(block(error.remedy, 20_000)), id="remedy")
            with Horizontal(id="dialog-buttons"):
                yield Button("Close", id="close", compact=True)
        yield KeyFooter()

    def do_copy(self) -> None:
        self.console.copy(f"{block(str(self.error), 40_000)}\n[{self.error.id}]")

    @on(Button.Pressed)
    def _close(self) -> None:
        self.dismiss(None)
