"""The server's log by lines: follows the newest, stops where the reader scrolls up, finds text."""

from __future__ import annotations

import re

from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual

from console.tui import ink
from console.tui.picture import Picture

_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{0,30}\] ?")
_TROUBLE = re.compile(r"\b(?:ERROR|CRITICAL|Traceback|Exception|Errno|error:|out of memory)\b")
_WARNING = re.compile(r"\bWARN(?:ING)?\b|Warning:")
_MILESTONE = re.compile(r"fired up and ready|Load weight (?:begin|end)|max_total_num_tokens")


class LogView(ScrollView):
    """following: the newest line stays in view. missed: lines that came since the reader scrolled up."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES = {"log--found", "log--current"}  # noqa: RUF012 - Textual's own type

    def __init__(self, picture: Picture, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.picture = picture
        self.log_lines = picture.log
        self.following = True
        self.needle = ""
        self._found: int | None = None  # line number, as the buffer counts
        self._first = self.log_lines.first
        self._read_to = self.log_lines.end
        self._said: tuple[int, int, bool] = (-1, -1, False)

    @property
    def missed(self) -> int:
        return 0 if self.following else self.log_lines.end - self._read_to

    def look(self) -> None:
        """Take in new lines."""
        buffer = self.log_lines
        now = (buffer.first, buffer.end, self.picture.stale is not None)
        if now == self._said:
            return
        trimmed, self._first = buffer.first - self._first, buffer.first
        self._said = now
        longest = max((len(text) for text in buffer.lines[-self.size.height :]), default=0)
        self.virtual_size = Size(max(self.virtual_size.width, longest, self.size.width), len(buffer.lines))
        if self.following:
            self._to_end()
        elif trimmed:
            self.scroll_to(y=self.scroll_offset.y - trimmed, animate=False, force=True, immediate=True)
        self.refresh()

    def follow(self) -> None:
        self.following = True
        self._to_end()
        self.refresh()

    def _to_end(self) -> None:
        self._read_to = self.log_lines.end
        bottom = max(len(self.log_lines.lines) - self.size.height, 0)
        self.scroll_to(y=bottom, animate=False, force=True, immediate=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        at_end = round(new_value) + self.size.height >= len(self.log_lines.lines)
        if new_value < old_value and self.following and not at_end:
            self.following, self._read_to = False, self.log_lines.end
        elif at_end and not self.following:
            self.following = True

    def on_resize(self) -> None:
        self._said = (-1, -1, False)
        self.look()

    def find(self, needle: str, step: int = -1) -> bool:
        """Show the next line that holds `needle`, upwards from the newest, or on from the last found one."""
        same = needle.casefold() == self.needle
        self.needle = needle.casefold()
        buffer = self.log_lines
        if not self.needle:
            self._found = None
            self.refresh()
            return False
        if same and self._found is not None:
            start = max(self._found - buffer.first, -1)  # -1: of a line that is trimmed away by now
        else:
            start = len(buffer.lines) if step < 0 else -1
        places = range(start - 1, -1, -1) if step < 0 else range(start + 1, len(buffer.lines))
        for index in places:
            if self.needle in buffer.lines[index].casefold():
                self._show(index)
                return True
        self.refresh()
        return False

    def _show(self, index: int) -> None:
        self._found = self.log_lines.first + index
        if self.following:
            self.following, self._read_to = False, self.log_lines.end
        middle = max(index - self.size.height // 2, 0)
        self.scroll_to(y=middle, animate=False, force=True, immediate=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        index = top + y
        style = self.visual_style
        if index >= len(self.log_lines.lines):
            return Strip.blank(self.size.width, style.rich_style)
        text = self.log_lines.lines[index]
        if self.log_lines.first + index == self._found:
            style += self.get_visual_style("log--current")
        content = self._selected(self._inked(text), index)
        width = max(content.cell_length, 1)
        strip = Visual.to_strips(self, content, width, 1, style, apply_selection=False)[0]
        return strip.crop_extend(left, left + self.size.width, style.rich_style).apply_offsets(left, index)

    def _inked(self, text: str) -> Content:
        content = Content(text)
        if self.picture.stale is not None:
            return content.stylize(ink.MUTED)
        if _TROUBLE.search(text):
            content = content.stylize(ink.BAD)
        elif _WARNING.search(text):
            content = content.stylize(ink.WARN)
        elif _MILESTONE.search(text):
            content = content.stylize(ink.GOOD)
        prefix = _PREFIX.match(text)
        if prefix:
            content = content.stylize(ink.MUTED, 0, prefix.end())
        if self.needle:
            found = self.get_visual_style("log--found")
            for match in re.finditer(re.escape(self.needle), text.casefold()):
                content = content.stylize(found, match.start(), match.end())
        return content

    def _selected(self, content: Content, index: int) -> Content:
        selection = self.text_selection
        span = selection.get_span(index) if selection is not None else None
        if span is None:
            return content
        start, end = span
        style = self.screen.get_visual_style("screen--selection")
        return content.stylize(style, start, len(content) if end == -1 else end)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(self.log_lines.lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002 - Textual's signature
        self.refresh()


class LogPane(LogView, can_focus=False):
    """The last lines on the main screen: always following; the whole log is a screen of its own."""
