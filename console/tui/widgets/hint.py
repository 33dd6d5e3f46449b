"""First steps, in a line above the keys; Esc takes it away."""

from __future__ import annotations

from textual.widgets import Static

from console.tui.text import block


class Hint(Static):
    def __init__(self, words: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(block(words), id=id, markup=False)
