"""The server's log: its end, and following it through truncation, rotation, deletion and late creation."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional

from remote.dumps.files import plain
from remote.server import record
from remote.server.lines import Splitter
from remote.wire.masking import mask_text, secrets_of
from remote.wire.server import LogLines
from remote.wire.target import Target

TAIL_BYTES = HEAD_BYTES = 1 << 20  # read from the end, or the beginning, at most
MOST_LINES = 10_000
TICK = 0.25  # seconds between two looks while following
LINES_A_TICK = 500
CHUNK = 1 << 20
QUIET = 2.0  # seconds after which a line without an end is shown all the same
FINGERPRINT = 64  # bytes before the place read to, that tell a log rewritten beyond it
BEHIND = 64 << 20  # bytes behind a place that are read, and their lines counted
PLACE = re.compile(r"(\d{1,20}):(\d{1,20}):(\d{1,10})")  # inode, offset, CRC-32 of what is before it
ANOTHER = "another log than before; the end of that one may be missing here"
TOO_MUCH = f"more than {BEHIND >> 20} MiB came meanwhile and are left out"
POLLS = re.compile(
    r'"GET /(health|v1/loads|get_load|model_info|get_model_info|server_info|get_server_info)\b[^"]*" 200'
)


def path_of(target: Target) -> str:
    """The log of the last server started here on the target's port, be it there or not."""
    known = record.read(target.port)
    return known.log if known else record.log_path(target.port)


def tail(target: Target, lines: int) -> LogLines:
    """The last `lines` lines, from the last MiB, secrets masked. `note` says why there are none."""
    path = path_of(target)
    try:
        return LogLines(_told(target, last_lines(path, lines)), path)
    except OSError as error:
        return LogLines((), path, note=f"no log: {error.strerror}")


def last_lines(path: str, lines: int = MOST_LINES, most_bytes: int = TAIL_BYTES) -> list[str]:
    """The last lines within the last `most_bytes` of a file. Raises OSError."""
    with open(path, "rb", opener=plain) as file:
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


def first_lines(path: str) -> list[str]:
    """The lines within the first MiB of a file. Raises OSError."""
    with open(path, "rb", opener=plain) as file:
        return Splitter().feed(file.read(HEAD_BYTES))


def follow(
    target: Target, lines: int, emit: Callable[[Any], None], cancelled: threading.Event, after: str = ""
) -> None:
    """Send the last `lines` lines, then new ones as they come, until `cancelled`; at most 500 a quarter second.

    after: the place of the last lines that are known from before: of those behind it, the last are sent.

    Secrets are masked.
    """
    follower = Follower(path_of(target))

    def send(chunk: LogLines) -> None:
        emit(dataclasses.replace(chunk, lines=_told(target, chunk.lines)))

    try:
        send(follower.begin(lines, after))
        while not cancelled.wait(TICK):
            news = follower.look()
            if news.lines or news.note or news.skipped:
                send(news)
    finally:
        follower.close()


def _told(target: Target, lines: Iterable[str]) -> tuple[str, ...]:
    """SGLang writes its whole command line into its log, and refuses flags with their values."""
    known = secrets_of(target.flags, target.env)
    return tuple(mask_text(line, known) for line in lines)


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

    def begin(self, lines: int, after: str = "") -> LogLines:
        """The last `lines` lines of what is there now, or of what is behind a place; `look` goes on behind them."""
        if not self._open():
            self._missing = True
            return LogLines((), self.path, note="there is no log yet")
        if not after:
            return self._tail(lines)
        known = self._find(after)
        self._offset = known or 0
        note = ANOTHER if known is None else ""
        if os.fstat(self._descriptor).st_size - self._offset > BEHIND:
            return dataclasses.replace(self._tail(lines), note="; ".join(filter(None, (note, TOO_MUCH))))
        self._remember()
        news = self.look(lines)
        return dataclasses.replace(news, note=note or news.note)

    def _tail(self, lines: int) -> LogLines:
        self._offset = max(0, os.fstat(self._descriptor).st_size - TAIL_BYTES)
        cut = self._offset > 0
        found = [line for line, _ in self._read() if line is not None][cut:]
        return LogLines(tuple(_last(found, lines)), self.path, place=self.place)

    @property
    def place(self) -> str:
        """Behind the last line that was given."""
        if self._file is None:
            return ""
        offset = self._offset - self._splitter.unfinished
        return f"{os.fstat(self._file).st_ino}:{offset}:{zlib.crc32(self._bytes_before(offset))}"

    def _find(self, place: str) -> Optional[int]:
        """The offset of a place, if it is one of this file."""
        found = PLACE.fullmatch(place)
        if found is None:
            return None
        inode, offset, crc = map(int, found.groups())
        there = os.fstat(self._descriptor)
        known = there.st_ino == inode and offset <= there.st_size and zlib.crc32(self._bytes_before(offset)) == crc
        return offset if known else None

    def look(self, most: int = LINES_A_TICK) -> LogLines:
        """What is new since the last look."""
        kept: deque[str] = deque(maxlen=most)
        total = 0
        note = ""
        for line, said in self._news():
            note = said or note
            if line is not None and not POLLS.search(line):
                kept.append(line)
                total += 1
        return LogLines(tuple(kept), self.path, note, total - len(kept), self.place)

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
        self._before = self._bytes_before(self._offset)

    def _bytes_before(self, offset: int) -> bytes:
        length = min(FINGERPRINT, offset)
        return os.pread(self._descriptor, length, offset - length)

    def _restart(self) -> None:
        self._offset, self._before = 0, b""
        self._splitter = Splitter()

    def _open(self) -> bool:
        with contextlib.suppress(OSError):
            self._file = plain(self.path, os.O_RDONLY)
        return self._file is not None

    @property
    def _descriptor(self) -> int:
        assert self._file is not None  # noqa: S101 - callers look first
        return self._file

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
