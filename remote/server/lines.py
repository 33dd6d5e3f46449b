"""Bytes of a log into lines fit to be shown: of bounded length, progress bars as their last update."""

from __future__ import annotations

import re
from typing import Optional

LONGEST = 4000  # bytes of a line that are kept
ENDS = re.compile(rb"(\r\n|[\r\n])")


class Splitter:
    """Feed it bytes as they come; it gives whole lines. A bare carriage return overwrites, as in a terminal."""

    def __init__(self) -> None:
        self._kept = b""  # of the line that has no end yet
        self._length = 0
        self._returned = False  # did the last bytes end in a carriage return, whose newline may follow?
        self._update: Optional[bytes] = None  # a line that ended in a carriage return, until something replaces it

    def feed(self, data: bytes) -> list[str]:
        """The lines that ended in `data`. Of updates that overwrite each other only the last is given."""
        if self._returned and data.startswith(b"\n"):
            data = data[1:]
        self._returned = data.endswith(b"\r")
        lines: list[bytes] = []
        parts = ENDS.split(data)
        for text, end in zip(parts[::2], parts[1::2]):
            line = self._take(text)
            if end == b"\r":
                self._update = line or self._update
            else:
                lines.append(line or self._update or b"")
                self._update = None
        self._add(parts[-1])
        if self._update is not None:
            lines.append(self._update)
            self._update = None
        return [line.decode("utf-8", "replace") for line in lines]

    @property
    def unfinished(self) -> int:
        """Bytes of the line that has no end yet."""
        return self._length

    def flush(self) -> list[str]:
        """The line that has no end yet, if there is one."""
        return [self._take(b"").decode("utf-8", "replace")] if self._length else []

    def _add(self, text: bytes) -> None:
        self._kept += text[: max(0, LONGEST - len(self._kept))]
        self._length += len(text)

    def _take(self, text: bytes) -> bytes:
        self._add(text)
        line, length = self._kept, self._length
        self._kept, self._length = b"", 0
        return line if length <= LONGEST else line + f" … [cut: {length} bytes]".encode()
