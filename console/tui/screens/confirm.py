"""The confirmation: exactly the plan, what it loses, and Cancel first."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from console.tui import ink
from console.tui.screens.page import Dialog
from console.tui.sheet import Lines, diff_lines, hang, sentences
from console.tui.text import line, plain
from console.tui.widgets.footer import KeyFooter
from remote.wire.plan import Plan


class ConfirmScreen(Dialog[bool]):
    """Dismissed with True only by the button that goes ahead. A plan that is not needed has no such button."""

    AUTO_FOCUS = "#cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
    ]

    def __init__(self, plan: Plan, where: str) -> None:
        super().__init__()
        self.plan = plan
        self.where = where

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="-loses" if self.plan.losses else ""):
            yield Static(self._title(), id="dialog-title")
            with VerticalScroll(id="dialog-body", can_focus=False):
                yield Static(id="dialog-text")
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel" if self.plan.needed else "Close", id="cancel", compact=True)
                if self.plan.needed:
                    go = plain(f"Go ahead: {self.plan.action}", longest=40)
                    yield Button(go, id="go", variant="warning", compact=True)
        yield KeyFooter()

    def on_mount(self) -> None:
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        width = min(self.size.width, 104) - 8
        self.query_one("#dialog-text", Static).update(Content("\n").join(plan_lines(self.plan, width)))

    def _title(self) -> Content:
        return Content.assemble(plain(self.plan.title, ink.STRONG, 200), (f"  on {line(self.where)}", ink.MUTED))

    def action_scroll(self, by: int) -> None:
        self.query_one("#dialog-body").scroll_relative(y=by, animate=False)

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "go")


def plan_lines(plan: Plan, width: int) -> Lines:
    """The plan's text. Commands are shown whole: the operator confirms exactly these."""
    if not plan.needed:
        return [Content.styled("Nothing to do: it is as wanted already.", ink.GOOD), *sentences(plan.notes, width)]
    lines: Lines = []
    for number, step in enumerate(plan.steps, 1):
        lines += hang(Content.styled(f"{number:>2}  ", ink.MUTED), plain(step.title, longest=500), width)
        if step.command:
            lines += hang(Content.styled("    $ ", ink.MUTED), plain(step.command, ink.KEY, 20_000), width)
    if plan.losses:
        lines += [Content(), Content.styled("This can't be undone", f"bold {ink.WARN}")]
        lines += sentences(plan.losses, width, "!", ink.WARN)
    if plan.notes:
        lines += [Content(), *sentences(plan.notes, width)]
    if plan.diff:
        lines += [Content(), Content.styled("Changes", ink.STRONG), *diff_lines(plan.diff)]
    return lines
