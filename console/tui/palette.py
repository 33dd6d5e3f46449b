"""The command palette: every action as 'area: verb', with the command line that does the same."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from console.actions import ACTIONS, ANYWHERE, MAIN, PATCH, Action
from console.tui.console import Console

OFFERED = (MAIN, PATCH, ANYWHERE)


class ActionCommands(Provider):
    async def discover(self) -> Hits:
        for name, words, use in self._entries():
            yield DiscoveryHit(name, use, help=escape(words))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, words, use in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), use, text=name, help=escape(words))

    def _entries(self) -> list[tuple[str, str, Any]]:
        console = cast(Console, self.app)
        entries: list[tuple[str, str, Any]] = [
            (f"{action.area}: {action.verb or action.label}", _words(action, console), partial(self._use, action))
            for action in ACTIONS
            if action.where in OFFERED and action.id != "back"
        ]
        entries.append(("screen: theme", "Choose the colours, light ones too", self.app.action_change_theme))
        entries.append(("screen: picture", "Save this screen as an SVG file", self._save))
        return entries

    def _use(self, action: Action) -> None:
        """As if the key had been pressed on the screen that has it."""
        do = getattr(self.screen, "action_do", cast(Console, self.app).do)
        do(action.id)

    def _save(self) -> None:
        self.screen.set_timer(0.1, self.app.deliver_screenshot)  # the screen's own: it ends with it


def _words(action: Action, console: Console) -> str:
    reason = console.why_not(action.id)
    return f"not now: {reason}" if reason else action.command or action.help
