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
        self._again = False

    @property
    def end(self) -> int:
        return self.first + len(self.lines)

    def again(self) -> None:
        """The next lines come from a new link: the agent begins with lines that may be here already."""
        self._again = True

    def add(self, new: LogLines) -> None:
        lines = [line(text, 2000) for text in new.lines[-MOST_LINES:]]
        if self._again:
            lines, self._again = _unseen(self.lines, lines), False
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


def _unseen(old: list[str], new: list[str]) -> list[str]:
    """What of `new`, which begins somewhere in `old` or after it, is not in `old`."""
    for overlap in range(min(len(old), len(new)), 0, -1):
        if old[-overlap:] == new[:overlap]:
            return new[overlap:]
    return new
