"""The server's log: its end, and following it through truncation, rotation, deletion and late creation."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable, Optional

from remote.server import record
from remote.server.lines import Splitter
from remote.wire.server import LogLines
from remote.wire.target import Target

TAIL_BYTES = 1 << 20  # read from the end at most
MOST_LINES = 10_000
TICK = 0.25  # seconds between two looks while following
LINES_A_TICK = 500
CHUNK = 1 << 20
QUIET = 2.0  # seconds after which a line without an end is shown all the same
FINGERPRINT = 64  # bytes before the place read to, that tell a log rewritten beyond it
POLLS = re.compile(
    r'"GET /(health|v1/loads|get_load|model_info|get_model_info|server_info|get_server_info)\b[^"]*" 200'
)


def path_of(target: Target) -> str:
    """The log of the last server started here on the target's port, be it there or not."""
    known = record.read(target.port)
    return known.log if known else record.log_path(target.port)


def tail(target: Target, lines: int) -> LogLines:
    """The last `lines` lines, from the last MiB. `note` says why there are none."""
    path = path_of(target)
    try:
        return LogLines(tuple(last_lines(path, lines)), path)
    except OSError as error:
        return LogLines((), path, note=f"no log: {error.strerror}")


def last_lines(path: str, lines: int = MOST_LINES, most_bytes: int = TAIL_BYTES) -> list[str]:
    """The last lines within the last `most_bytes` of a file. Raises OSError."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - most_bytes))
        data = file.read(most_bytes)
    splitter = Splitter()
    found = splitter.feed(data) + splitter.flush()
    if size > most_bytes:
        found = found[1:]  # cut in the middle
    return _last(found, lines)


def _last(found: list[str], lines: int) -> list[str]:
    """The last `lines` lines that are not about our own questions."""
    wanted = (line for line in reversed(found) if not POLLS.search(line))
    return list(itertools.islice(wanted, max(0, min(lines, MOST_LINES))))[::-1]


def first_lines(path: str, most_bytes: int = TAIL_BYTES) -> list[str]:
    """The lines within the first `most_bytes` of a file. Raises OSError."""
    with open(path, "rb") as file:
        return Splitter().feed(file.read(most_bytes))


def follow(target: Target, lines: int, emit: Callable[[Any], None], cancelled: threading.Event) -> None:
    """Send the last `lines` lines, then new ones as they come, until `cancelled`; at most 500 a quarter second."""
    follower = Follower(path_of(target))
    try:
        emit(follower.begin(lines))
        while not cancelled.wait(TICK):
            news = follower.look()
            if news.lines or news.note or news.skipped:
                emit(news)
    finally:
        follower.close()


class Follower:
    """Reads a file by its path as it grows, and notices when it is no longer the same file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Optional[int] = None
        self._offset = 0
        self._before = b""
        self._missing = False
        self._splitter = Splitter()
        self._grown = time.monotonic()

    def begin(self, lines: int) -> LogLines:
        """The last `lines` lines of what is there now; `look` goes on behind them."""
        if not self._open():
            self._missing = True
            return LogLines((), self.path, note="there is no log yet")
        size = os.fstat(self._descriptor).st_size
        self._offset = max(0, size - TAIL_BYTES)
        cut = self._offset > 0
        found = [line for line, _ in self._read() if line is not None][cut:]
        return LogLines(tuple(_last(found, lines)), self.path)

    def look(self) -> LogLines:
        """What is new since the last look."""
        kept: deque[str] = deque(maxlen=LINES_A_TICK)
        total = 0
        note = ""
        for line, said in self._news():
            note = said or note
            if line is not None and not POLLS.search(line):
                kept.append(line)
                total += 1
        return LogLines(tuple(kept), self.path, note, total - len(kept))

    def _news(self) -> Iterator[tuple[Optional[str], str]]:
        """New lines, and notes of what happened to the file."""
        if self._file is not None:
            if self._rewritten():
                self._restart()
                yield None, "the log was truncated; following from its new beginning"
            yield from self._read()
        replaced = self._replaced()
        if replaced:
            yield from ((line, "") for line in self._splitter.flush())
            self.close()
        if self._file is None and self._open():
            self._restart()
            yield None, "the log was replaced; following the new one" if replaced else "the log is there now"
            self._missing = False
            yield from self._read()
        elif not os.path.exists(self.path) and not self._missing:
            self._missing = True
            yield None, "the log was deleted; still following what is written to it"

    def _read(self) -> Iterator[tuple[Optional[str], str]]:
        size = os.fstat(self._descriptor).st_size
        while self._offset < size:
            data = os.pread(self._descriptor, min(CHUNK, size - self._offset), self._offset)
            if not data:
                break
            self._offset += len(data)
            self._grown = time.monotonic()
            yield from ((line, "") for line in self._splitter.feed(data))
        self._remember()
        if self._splitter.unfinished and time.monotonic() - self._grown > QUIET:
            yield from ((line, "") for line in self._splitter.flush())

    def _rewritten(self) -> bool:
        if os.fstat(self._descriptor).st_size < self._offset:
            return True
        return os.pread(self._descriptor, len(self._before), self._offset - len(self._before)) != self._before

    def _replaced(self) -> bool:
        """Is another file at the path now?"""
        if self._file is None:
            return False
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _remember(self) -> None:
        length = min(FINGERPRINT, self._offset)
        self._before = os.pread(self._descriptor, length, self._offset - length)

    def _restart(self) -> None:
        self._offset, self._before = 0, b""
        self._splitter = Splitter()

    def _open(self) -> bool:
        with contextlib.suppress(OSError):
            self._file = os.open(self.path, os.O_RDONLY)
        return self._file is not None

    @property
    def _descriptor(self) -> int:
        assert self._file is not None  # noqa: S101 - callers look first
        return self._file

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
