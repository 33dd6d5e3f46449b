"""The main screen: where we are, the machine, the server, its dumps, its log."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from console.tui.picture import Picture
from console.tui.screens.page import Page, keys
from console.tui.screens.request import RequestScreen
from console.tui.widgets.dumps import DumpTable
from console.tui.widgets.footer import KeyFooter
from console.tui.widgets.gpus import Gpus
from console.tui.widgets.header import Header
from console.tui.widgets.hint import Hint
from console.tui.widgets.log import LogPane
from console.tui.widgets.rules import DumpsRule, LogRule
from console.tui.widgets.server import Server
from console.tui.widgets.shm import Shm


class MainScreen(Page[None]):
    BINDINGS: ClassVar[list[BindingType]] = keys(where="main")
    AUTO_FOCUS = "#dumps"

    def __init__(self, picture: Picture, hint: str) -> None:
        super().__init__()
        self.picture = picture
        self.hint = hint

    def compose(self) -> ComposeResult:
        picture = self.picture
        yield Header(picture, id="header")
        with Horizontal(id="machine"):
            yield Gpus(picture, id="gpus")
            yield Shm(picture, id="shm")
        yield Server(picture, id="server")
        with Vertical(id="requests"):
            yield DumpsRule(picture)
            yield Input(placeholder="number, rid, state or note", id="filter", compact=True)
            yield DumpTable(picture, id="dumps")
        with Vertical(id="log-panel"):
            yield LogRule(picture)
            yield LogPane(picture, id="log")
        yield Hint(self.hint, id="hint")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self.query_one("#hint").display = bool(self.hint)

    def draw(self) -> None:
        super().draw()
        self.query_one(DumpTable).look()
        self.query_one(LogPane).look()

    def do_dumps_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()
        self.refresh_bindings()

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self.picture.dumps.filter(event.value)
        self.look()
        self.query_one(DumpTable).refresh()

    @on(Input.Submitted, "#filter")
    def _filtered(self) -> None:
        self.query_one("#filter").display = bool(self.picture.dumps.needle)
        self.refresh_bindings()
        self.query_one(DumpTable).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """On the main screen Esc is a key only while there is something to take away."""
        if action == "do" and parameters == ("back",) and self.is_mounted:
            return bool(self.query_one("#filter").display or self.query_one("#hint").display)
        return super().check_action(action, parameters)

    def do_back(self) -> None:
        """Esc takes away what lies nearest: the filter, then the hint."""
        box = self.query_one("#filter", Input)
        if box.display:
            box.value = ""
            box.display = False
            self.query_one(DumpTable).focus()
        elif self.query_one("#hint").display:
            self.query_one("#hint").display = False
        self.refresh_bindings()

    def refuse(self, key: str) -> None:
        if key == "escape":
            self.notify("This is the main screen: q leaves hsconsole.", timeout=3)
        else:
            super().refuse(key)

    def do_dumps_show(self) -> None:
        number = self.query_one(DumpTable).number
        if number is None:
            self.notify("There is no request to open.")
        else:
            self.post_message(DumpTable.Opened(number))

    def do_dumps_verify(self) -> None:
        number = self.query_one(DumpTable).number
        if number is None:
            self.notify("There is no request to verify.")
        else:
            self.app.push_screen(RequestScreen(number, verify=True))
