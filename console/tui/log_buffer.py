"""The last lines of the server's log, harmless, with a number for each line that was ever there."""

from __future__ import annotations

from console.tui.text import line
from remote.wire.server import LogLines

MOST_LINES = 50_000
SLACK = 5_000  # trimmed at once, so that trimming is rare


class LogBuffer:
    """lines[i] is line number `first + i` of all that came."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.first = 0
        self.path = ""

    @property
    def end(self) -> int:
        return self.first + len(self.lines)

    def add(self, new: LogLines) -> None:
        lines = [line(text, 2000) for text in new.lines[-MOST_LINES:]]
        if new.path:
            self.path = line(new.path)
        if new.note:
            self.lines.append(f"── {line(new.note)} ──")
        if new.skipped:
            self.lines.append(f"── {new.skipped:,} lines left out ──")
        self.lines.extend(lines)
        if len(self.lines) > MOST_LINES + SLACK:
            extra = len(self.lines) - MOST_LINES
            del self.lines[:extra]
            self.first += extra
