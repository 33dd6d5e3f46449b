"""The dumped requests as a table of any length: only the lines that are seen are drawn; the selection is a number."""

from __future__ import annotations

import dataclasses

from rich.segment import Segment
from textual.binding import Binding
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from console.text import size
from console.tui import ink
from console.tui.format import age, count
from console.tui.picture import Picture
from console.tui.text import cells, line, plain
from remote.wire.dumps import DumpRow, DumpState


@dataclasses.dataclass(frozen=True)
class Column:
    """least: the table's width from which this column is there. width 0: the rest."""

    title: str
    width: int
    right: bool = False
    least: int = 0


COLUMNS = (
    Column("REQ", 8, right=True),
    Column("AGE", 7, right=True),
    Column("TOKENS", 8, right=True),
    Column("SIZE", 9, right=True, least=60),
    Column("LAYERS", 12, least=100),
    Column("RID", 8),
    Column("STATE", 10),
    Column("NOTE", 0, least=50),
)
GAP = 2
RID_MOST = 32


class DumpTable(ScrollView, can_focus=True):
    """`selected` is None while the newest request is the selected one, whichever that is."""

    COMPONENT_CLASSES = {"dumps--head", "dumps--cursor"}  # noqa: RUF012 - Textual's own type
    BINDINGS = [  # noqa: RUF012
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "newest", show=False),
        Binding("end,G", "oldest", show=False),
    ]

    class Opened(Message):
        """Enter, or a second click, on a request."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, picture: Picture, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.picture = picture
        self.dumps = picture.dumps
        self.selected: int | None = None
        self._index = 0  # of the selected row when it was last looked at
        self._lines: tuple[Content, ...] = ()

    @property
    def number(self) -> int | None:
        """The number of the selected request; None when there is none."""
        if not len(self.dumps):
            return None
        return self.dumps.at(min(self._index, len(self.dumps) - 1)).number if self.selected is None else self.selected

    @property
    def rows_seen(self) -> int:
        return max(self.size.height - 1, 1)

    def look(self) -> None:
        """Take in what changed: newer rows come on top, the selected one stays where the eye is."""
        before, self._index = self._index, self._find()
        self.virtual_size = Size(self.size.width, len(self.dumps) + 1)
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
        if self.selected is None or not len(self.dumps):
            return 0
        index = self.dumps.index_of(self.selected)
        if index is not None:
            return index
        index = min(self._index, len(self.dumps) - 1)
        self.selected = self.dumps.at(index).number
        return index

    def select(self, index: int) -> None:
        if not len(self.dumps):
            return
        self._index = min(max(index, 0), len(self.dumps) - 1)
        self.selected = None if self._index == 0 else self.dumps.at(self._index).number
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

    def action_newest(self) -> None:
        self.select(0)

    def action_oldest(self) -> None:
        self.select(len(self.dumps) - 1)

    def on_resize(self) -> None:
        self.look()
        self.refresh()

    def on_click(self, event: Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y < 1 or index >= len(self.dumps):
            return
        if index == self._index and event.chain == 2 and self.number is not None:
            self.post_message(self.Opened(self.number))
        self.select(index)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        style = self.visual_style
        if y == 0:
            style += self.get_visual_style("dumps--head")
        elif len(self.dumps) and self.scroll_offset.y + y - 1 == self._index and self.has_focus:
            style += self.get_visual_style("dumps--cursor")
        strips = Visual.to_strips(self, self._words(y), width, 1, style, pad=True)
        return strips[0] if strips else Strip([Segment(" " * width, style.rich_style)], width)

    def _words(self, y: int) -> Content:
        """What screen line `y` says; line 0 is the head."""
        if y == 0:
            return self._row({column.title: Content(column.title) for column in COLUMNS})
        index = self.scroll_offset.y + y - 1
        if index < len(self.dumps):
            return self._row(self._fields(self.dumps.at(index)))
        return self._empty() if y == 1 and not len(self.dumps) else Content()

    def _empty(self) -> Content:
        if self.dumps.problem:
            return plain(f"  {line(self.dumps.problem)}", ink.WARN)
        if self.dumps.needle:
            return plain(f"  no request matches {self.dumps.needle!r}", ink.MUTED)
        seen = "no requests yet: t sends a test request" if self.picture.dumps_seen else "waiting for the first look …"
        return Content.styled(f"  {seen}", ink.MUTED)

    def _fields(self, row: DumpRow) -> dict[str, Content]:
        words, style = ink.DUMPS[row.state]
        return {
            "REQ": Content(str(row.number)),
            "AGE": Content.styled(age(self.picture.since(row.at)), ink.MUTED),
            "TOKENS": Content(count(row.tokens)),
            "SIZE": Content(size(row.size)),
            "LAYERS": Content.styled(",".join(map(str, row.layers[:12])), ink.MUTED),
            "RID": plain(row.rid or "", longest=80),
            "STATE": Content.styled(words, style),
            "NOTE": plain(row.remark, ink.MUTED if row.state is DumpState.COMPLETE else style, 300),
        }

    def _row(self, fields: dict[str, Content]) -> Content:
        parts = [
            cells(fields[column.title], width, right=column.right)
            for column, width in layout(self.size.width, min(self.dumps.longest_rid, RID_MOST))
        ]
        row = Content(" ") + Content(" " * GAP).join(parts)
        return row if self.picture.stale is None else ink.faded(row)


def layout(width: int, rid: int) -> list[tuple[Column, int]]:
    """The columns that a table of `width` cells has, each with its cells. RID grows to `rid`, NOTE takes the rest."""
    shown = [column for column in COLUMNS if width >= column.least]
    rest = width - 2 - sum(column.width for column in shown) - GAP * (len(shown) - 1)
    more_rid = min(max(rest - 24, 0), max(rid - 8, 0))
    extra = {"RID": more_rid, "NOTE": max(rest - more_rid, 0)}
    return [(column, column.width + extra.get(column.title, 0)) for column in shown]
