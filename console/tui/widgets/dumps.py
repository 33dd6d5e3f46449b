"""The dumped requests, newest first."""

from __future__ import annotations

from textual.content import Content

from console.operations.counts import none_here
from console.text import size
from console.tui import ink
from console.tui.format import age, count
from console.tui.picture import Picture
from console.tui.text import plain
from console.tui.widgets.table import Column, LineTable, layout
from remote.wire.dumps import DumpState

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
RID_MOST = 32


class DumpTable(LineTable):
    def __init__(self, picture: Picture, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(picture.dumps, COLUMNS, id=id)
        self.picture = picture
        self.dumps = picture.dumps

    def layout_of(self, width: int) -> list[tuple[Column, int]]:
        return layout(self.columns, width, "RID", max(min(self.dumps.longest_rid, RID_MOST) - 8, 0))

    def empty(self) -> Content:
        if self.dumps.problem:
            return plain(self.dumps.problem, ink.WARN)
        if self.dumps.needle:
            return plain(f"no request matches {self.dumps.needle!r}", ink.MUTED)
        if not self.picture.dumps_seen:
            return Content.styled("waiting for the first look …", ink.MUTED)
        return Content.styled(f"{none_here(self.dumps.counts)}: t sends a test request", ink.MUTED)

    def fields(self, index: int) -> dict[str, Content]:
        row = self.dumps.at(index)
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

    def row(self, fields: dict[str, Content]) -> Content:
        row = super().row(fields)
        return row if self.picture.stale is None else ink.faded(row)
