"""Numbered rows as a table of any length: only the lines that are seen are drawn; the selection is a number."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from rich.segment import Segment
from textual.binding import Binding
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from console.tui.sheet import hang
from console.tui.text import cells


@dataclasses.dataclass(frozen=True)
class Column:
    """least: the table's width from which this column is there. width 0: the rest."""

    title: str
    width: int
    right: bool = False
    least: int = 0


class Rows(Protocol):
    """Rows that have numbers; 0 is the first one shown."""

    def __len__(self) -> int: ...

    def number_at(self, index: int) -> int: ...

    def index_of(self, number: int) -> int | None: ...


GAP = 2


class LineTable(ScrollView, can_focus=True):
    """`selected` is None while the first row is the selected one, whichever that is."""

    COMPONENT_CLASSES = {"table--head", "table--cursor"}  # noqa: RUF012 - Textual's own type
    BINDINGS = [  # noqa: RUF012
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "first", show=False),
        Binding("end,G", "last", show=False),
    ]

    class Opened(Message):
        """Enter, or a second click, on a request."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, rows: Rows, columns: tuple[Column, ...], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.rows = rows
        self.columns = columns
        self.selected: int | None = None
        self._index = 0  # of the selected row when it was last looked at
        self._lines: tuple[Content, ...] = ()

    def fields(self, index: int) -> dict[str, Content]:
        """What row `index` says, by the titles of columns."""
        raise NotImplementedError

    def empty(self) -> Content:
        """What is said instead of rows, in as many lines as it takes."""
        raise NotImplementedError

    def layout_of(self, width: int) -> list[tuple[Column, int]]:
        """The columns that a table of `width` cells has, each with its cells."""
        return layout(self.columns, width)

    @property
    def number(self) -> int | None:
        """The number of the selected row; None when there is none."""
        if not len(self.rows):
            return None
        return self.rows.number_at(min(self._index, len(self.rows) - 1)) if self.selected is None else self.selected

    @property
    def rows_seen(self) -> int:
        return max(self.size.height - 1, 1)

    def look(self) -> None:
        """Take in what changed: newer rows come on top, the selected one stays where the eye is."""
        before, self._index = self._index, self._find()
        self.virtual_size = Size(self.size.width, len(self.rows) + 1)
        if self.selected is not None and self._index != before:
            self.scroll_to(y=self.scroll_offset.y + self._index - before, animate=False, force=True, immediate=True)
        elif self.selected is None:
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
        lines = tuple(self._words(y) for y in range(1, self.size.height))
        if len(lines) != len(self._lines) or not all(map(Content.is_same, lines, self._lines)):
            self._lines = lines
            self.refresh()

    def _find(self) -> int:
        """Where the selected row is now. Gone or filtered out: its neighbour takes over."""
        if self.selected is None or not len(self.rows):
            return 0
        index = self.rows.index_of(self.selected)
        if index is not None:
            return index
        index = min(self._index, len(self.rows) - 1)
        self.selected = self.rows.number_at(index)
        return index

    def select(self, index: int) -> None:
        if not len(self.rows):
            return
        self._index = min(max(index, 0), len(self.rows) - 1)
        self.selected = None if self._index == 0 else self.rows.number_at(self._index)
        top = self.scroll_offset.y
        if self._index < top:
            self.scroll_to(y=self._index, animate=False, force=True, immediate=True)
        elif self._index >= top + self.rows_seen:
            self.scroll_to(y=self._index - self.rows_seen + 1, animate=False, force=True, immediate=True)
        self.refresh()

    def action_move(self, by: int) -> None:
        self.select(self._index + by)

    def action_page(self, by: int) -> None:
        self.select(self._index + by * self.rows_seen)

    def action_first(self) -> None:
        self.select(0)

    def action_last(self) -> None:
        self.select(len(self.rows) - 1)

    def on_resize(self) -> None:
        self.look()
        self.refresh()

    def on_click(self, event: Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y < 1 or index >= len(self.rows):
            return
        if index == self._index and event.chain == 2 and self.number is not None:
            self.post_message(self.Opened(self.number))
        self.select(index)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        style = self.visual_style
        if y == 0:
            style += self.get_visual_style("table--head")
        elif len(self.rows) and self.scroll_offset.y + y - 1 == self._index and self.has_focus:
            style += self.get_visual_style("table--cursor")
        strips = Visual.to_strips(self, self._words(y), width, 1, style, pad=True)
        return strips[0] if strips else Strip([Segment(" " * width, style.rich_style)], width)

    def _words(self, y: int) -> Content:
        """What screen line `y` says; line 0 is the head."""
        if y == 0:
            return self.row({column.title: Content(column.title) for column in self.columns})
        index = self.scroll_offset.y + y - 1
        if index < len(self.rows):
            return self.row(self.fields(index))
        said = hang(Content("  "), self.empty(), self.size.width) if not len(self.rows) else []
        return said[y - 1] if y <= len(said) else Content()

    def row(self, fields: dict[str, Content]) -> Content:
        parts = [
            cells(fields[column.title], width, right=column.right) for column, width in self.layout_of(self.size.width)
        ]
        return Content(" ") + Content(" " * GAP).join(parts)


def layout(columns: tuple[Column, ...], width: int, wider: str = "", by: int = 0) -> list[tuple[Column, int]]:
    """The columns that a table of `width` cells has, each with its cells.

    The column `wider` grows by up to `by` where the last one, which takes the rest, keeps 24.
    """
    shown = [column for column in columns if width >= column.least]
    rest = width - 2 - sum(column.width for column in shown) - GAP * (len(shown) - 1)
    more = min(max(rest - 24, 0), by)
    extra = {wider: more}
    return [
        (column, column.width + extra.get(column.title, 0) if column.width else max(rest - more, 0)) for column in shown
    ]
