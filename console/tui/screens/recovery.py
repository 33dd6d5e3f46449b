"""A recovery while it runs, and its end; where something is still held, the last resorts."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from console.actions import ACTIONS, RECOVERY
from console.tui import ink
from console.tui.screens.page import keys
from console.tui.screens.run import RunScreen
from console.tui.sheet import Lines, hang, heading, sentences
from console.tui.text import cells, plain

RESTART = "server.recover.restart"


class RecoveryScreen(RunScreen):
    BINDINGS: ClassVar[list[BindingType]] = keys(where=RECOVERY)

    @property
    def offered(self) -> tuple[str, ...]:
        """The last resorts that there are, once the ordinary plan was not enough."""
        if self.run.result is None or self.run.ok:
            return ()
        by_host = self.console.picture.profile.proxmox is not None
        return tuple(action.id for action in ACTIONS if action.where == RECOVERY and (by_host or action.id != RESTART))

    def offer(self, width: int) -> Lines:
        lines = heading("Last resort") if self.offered else []
        for action in ACTIONS:
            if action.id in self.offered:
                head = Content.assemble("  ", (action.key, f"bold {ink.KEY}"), "  ", cells(Content(action.label), 14))
                lines += hang(head, plain(action.help.removeprefix("Last resort: "), ink.MUTED), width)
        if self.offered:
            lines += sentences(("Each shows its plan first, and goes ahead only after a word that is typed.",), width)
        return lines

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Before its end, and after a good one, they are no keys of this page."""
        own = action == "do" and bool(parameters) and str(parameters[0]).startswith("server.recover.")
        if own and (not self.is_attached or parameters[0] not in self.offered):
            return False
        return super().check_action(action, parameters)
