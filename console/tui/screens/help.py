"""Every key, from the registry, with the command that does the same; what can't be used now says why."""

from __future__ import annotations

from textual.content import Content

from console.actions import ACTIONS, ANYWHERE, LOG, MAIN, PAGE, PATCH, RECOVERY, Action
from console.tui import ink
from console.tui.screens.page import Sheet
from console.tui.sheet import hang, heading
from console.tui.text import cells, plain
from console.tui.widgets.footer import KEYS

PLACES = (
    (MAIN, "Main screen"),
    (PATCH, "Patch screen"),
    (LOG, "Log screen"),
    (RECOVERY, "After a recovery that was not enough"),
    (PAGE, "Pages and errors"),
    (ANYWHERE, "Everywhere"),
)
MOVES = (("↑ ↓ j k", "select a request"), ("pgup pgdn", "by a page"), ("home", "back to the newest, and stay there"))


class HelpScreen(Sheet[None]):
    def title_words(self) -> str:
        return "Help"

    def lines(self, width: int) -> list[Content]:
        lines: list[Content] = []
        for place, title in PLACES:
            lines += heading(title)
            for action in ACTIONS:
                if action.where == place:
                    lines += self._action(action, width)
            if place == MAIN:
                for key, words in MOVES:
                    lines.append(Content.assemble(cells(Content.styled(f"    {key}", ink.KEY), 16), words))
            if place == ANYWHERE:
                lines.append(Content.assemble(cells(Content.styled("    ctrl+p", ink.KEY), 16), "every action by name"))
        return lines

    def _action(self, action: Action, width: int) -> list[Content]:
        reason = self.console.why_not(action.id)
        head = Content.assemble(
            cells(Content.styled(f"    {KEYS.get(action.key, action.key)}", ink.MUTED if reason else ink.KEY), 16),
            cells(Content.styled(action.label, ink.MUTED if reason else ink.PLAIN), 14),
            "  ",
        )
        words = plain(action.help, ink.MUTED if reason else ink.PLAIN)
        command = Content.styled(f"  {action.command}" if action.command else "", ink.MUTED)
        beside = head.cell_length + words.cell_length + command.cell_length <= width
        lines = hang(head, words + command if beside else words, width)
        if not beside and action.command:
            lines += hang(Content(" " * head.cell_length), plain(action.command, ink.MUTED), width)
        if reason and action.id != "link.retry":
            lines += hang(Content(" " * 32), plain(f"not now: {reason}", ink.WARN), width)
        return lines
