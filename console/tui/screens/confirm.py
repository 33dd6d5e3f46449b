"""The confirmation: exactly the plan, what it loses, and Cancel first; for the worst, a word to be typed."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Paste
from textual.widgets import Button, Input, Static

from console.tui import ink
from console.tui.screens.page import Dialog
from console.tui.sheet import Lines, diff_lines, hang, sentences
from console.tui.text import line, plain
from console.tui.widgets.footer import KeyFooter
from remote.wire.plan import Plan

CANCEL, OTHER, GO = "cancel", "other", "go"  # buttons, and what they answer


class TypedWord(Input):
    """Takes keys one by one; what is pasted is not typed."""

    def _on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()

    def action_paste(self) -> None:
        """Not by ctrl+v either."""


class ConfirmScreen(Dialog[str]):
    """Dismissed with GO only by the button that goes ahead. A plan that is not needed has no such button.

    other: what the button says that asks for another plan; it dismisses with OTHER. None without such words.
    Where the plan wants a word, the button works only while exactly that word stands in the box.
    """

    AUTO_FOCUS = "#word, #cancel"

    def __init__(self, plan: Plan, where: str, other: str = "") -> None:
        super().__init__()
        self.other = other
        self.plan = plan
        self.where = where

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="-loses" if self.plan.losses else ""):
            yield Static(self._title(), id="dialog-title")
            with VerticalScroll(id="dialog-body", can_focus=False):
                yield Static(id="dialog-text")
            if self.plan.needed and self.plan.word:
                with Horizontal(id="dialog-word"):
                    yield Static(
                        Content.assemble("Type ", (line(self.plan.word), f"bold {ink.WARN}"), " to go ahead: ")
                    )
                    yield TypedWord(id="word", compact=True, max_length=len(self.plan.word) + 8)
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel" if self.plan.needed else "Close", id=CANCEL, compact=True)
                if self.other:
                    yield Button(plain(self.other), id=OTHER, compact=True)
                if self.plan.needed:
                    go = plain(f"Go ahead: {self.plan.action}", longest=40)
                    yield Button(go, id=GO, variant="warning", compact=True, disabled=bool(self.plan.word))
        yield KeyFooter()

    def on_mount(self) -> None:
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        width = min(self.size.width, 104) - 10  # with room for a scrollbar
        self.query_one("#dialog-text", Static).update(Content("\n").join(plan_lines(self.plan, width)))

    def _title(self) -> Content:
        return Content.assemble(plain(self.plan.title, ink.STRONG, 200), (f"  on {line(self.where)}", ink.MUTED))

    @on(Input.Changed, "#word")
    def _typed(self, event: Input.Changed) -> None:
        self.query_one("#go", Button).disabled = event.value != self.plan.word

    @on(Input.Submitted, "#word")
    def _entered(self, event: Input.Submitted) -> None:
        if event.value == self.plan.word:
            self.dismiss(GO)

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        answer = event.button.id or CANCEL
        if answer != GO or not self.plan.word or self.query_one("#word", Input).value == self.plan.word:
            self.dismiss(answer)


def plan_lines(plan: Plan, width: int) -> Lines:
    """The plan's text. Commands are shown whole: the operator confirms exactly these."""
    if not plan.needed:
        return [Content.styled("Nothing to do: it is as wanted already.", ink.GOOD), *sentences(plan.notes, width)]
    steps, losses = step_lines(plan, width), loss_lines(plan, width)
    parts = [losses, steps] if plan.word else [steps, losses]  # the worst is seen without scrolling
    parts.append(sentences(plan.notes, width))
    if plan.diff:
        parts.append([Content.styled("Changes", ink.STRONG), *diff_lines(plan.diff)])
    first, *others = [part for part in parts if part] or [[]]
    return [*first, *(row for part in others for row in (Content(), *part))]


def step_lines(plan: Plan, width: int) -> Lines:
    lines: Lines = []
    for number, step in enumerate(plan.steps, 1):
        lines += hang(Content.styled(f"{number:>2}  ", ink.MUTED), plain(step.title, longest=500), width)
        if step.command:
            lines += hang(Content.styled("    $ ", ink.MUTED), plain(step.command, ink.KEY, 20_000), width)
    return lines


def loss_lines(plan: Plan, width: int) -> Lines:
    if not plan.losses:
        return []
    return [
        Content.styled("This can't be undone", f"bold {ink.WARN}"),
        *sentences(plan.losses, width, "!", ink.WARN),
    ]
