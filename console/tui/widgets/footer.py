"""The keys that work here, read from the screen's own bindings; one that can't be used now is grey."""

from __future__ import annotations

from typing import Any, cast

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button

from console.actions import BY_ID
from console.tui import ink
from console.tui.text import cells

KEYS = {"question_mark": "?", "slash": "/", "escape": "esc", "enter": "↵"}
FIRST_TO_GO = (
    "dumps.verify_all",
    "palette",
    "quit",
    "dumps.filter",
    "server.preflight",
    "link.retry",
    "log",
    "back",
    "dumps.verify",
)


class KeyFooter(Widget):
    DEFAULT_CSS = """
    KeyFooter { height: 1; dock: bottom; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, Content] = {}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _: Screen[object]) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        width = self.size.width
        entries = self._entries()
        for leaving in FIRST_TO_GO:
            if _length(entries) <= width:
                break
            entries = {name: entry for name, entry in entries.items() if name != leaving}
        self._shown = entries
        choose = [_CHOOSE] if self.screen.is_modal and len(self.screen.query(Button)) > 1 else []
        return cells(Content(" ") + Content("  ").join([*entries.values(), *choose]), width)

    async def on_click(self, event: Click) -> None:
        left = 1
        for name, entry in self._shown.items():
            if left <= event.x < left + entry.cell_length:
                if name == "palette":
                    await self.run_action("app.command_palette")
                else:  # straight to the page, not by an action of Textual's: a grey key says why
                    cast(Any, self.screen).action_do(name)
                return
            left += entry.cell_length + 2

    def _entries(self) -> dict[str, Content]:
        entries: dict[str, Content] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            action = BY_ID.get(binding.id or "")
            if binding.show and action is not None:
                entries[action.id] = _entry(binding.key, action.label, enabled)
        if not self.screen.is_modal:
            entries["palette"] = _entry("^p", "commands", enabled=True)
        order = [*BY_ID, "palette"]
        return dict(sorted(entries.items(), key=lambda entry: order.index(entry[0])))


def _entry(key: str, label: str, enabled: bool) -> Content:
    shown = KEYS.get(key, key)
    if not enabled:
        return Content.styled(f"{shown} {label}", "$foreground-disabled")
    return Content.assemble((shown, f"bold {ink.KEY}"), f" {label}")


_CHOOSE = Content.assemble(("← →", f"bold {ink.KEY}"), " choose  ", ("↵", f"bold {ink.KEY}"), " take it")


def _length(entries: dict[str, Content]) -> int:
    return 1 + sum(entry.cell_length + 2 for entry in entries.values())
