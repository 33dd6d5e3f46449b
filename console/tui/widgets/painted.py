"""A widget that is a function of the picture: painted anew when the picture or the time changes what it says."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from console.tui import ink
from console.tui.format import age
from console.tui.picture import Picture
from console.tui.text import cells, plain


class Painted(Widget):
    """Subclasses say in `paint` what `width` cells show. `look` costs nothing where that is as before."""

    DEFAULT_CSS = """
    Painted { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, picture: Picture, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.picture = picture
        self._shown = Content()

    def paint(self, width: int) -> Content:
        raise NotImplementedError

    def look(self) -> None:
        width = self.content_size.width
        if not width:
            return
        fresh = self.paint(width)
        if not fresh.is_same(self._shown):
            self.refresh(layout=_height(fresh) != _height(self._shown))

    def render(self) -> Content:
        self._shown = self.paint(self.content_size.width)
        return self._shown

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return _height(self.paint(width))


class Panel(Painted):
    """A titled rule with lines under it, dimmed as a whole while what it shows is old. kind: of the value it shows."""

    kind: ClassVar[type]

    def stale(self) -> float | None:
        """How old it is, where that is older than it should be, seconds."""
        return self.picture.overdue(self.kind)

    def title(self) -> str:
        raise NotImplementedError

    def body(self, width: int) -> list[Content]:
        raise NotImplementedError

    def paint(self, width: int) -> Content:
        stale = self.stale()
        lines = self.body(width)
        if stale is not None:
            lines = [ink.faded(content) for content in lines]
        return Content("\n").join([rule(self.title(), width, stale=stale), *lines])


def rule(
    title: str, width: int, *, said: Content | None = None, right: Content | None = None, stale: float | None = None
) -> Content:
    """`── title  said ───── right ──`. A stale picture says its age at the right end, whatever else would be there."""
    head = Content.assemble(("── ", ink.TRACK), plain(title, ink.STRONG, 100), " ")
    if said:
        head += Content(" ") + said + " "
    tail = right or Content()
    if stale is not None:
        tail = Content.styled(f"as of {age(stale)} ago" if stale >= 1 else "as of just now", ink.WARN)
    if tail and head.cell_length + tail.cell_length + 6 > width:
        head, tail = (head, Content()) if stale is None else (cells(head, max(width - tail.cell_length - 6, 0)), tail)
    room = width - head.cell_length - (tail.cell_length + 4 if tail else 0)
    ends: list[Content | tuple[str, str] | str] = [" ", tail, " ", ("──", ink.TRACK)] if tail else []
    return cells(Content.assemble(head, ("─" * max(room, 0), ink.TRACK), *ends), width)


def _height(content: Content) -> int:
    return content.plain.count("\n") + 1
