"""Is an audit log what was written? Its chain followed from the first line to the last, and the last lines read."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from typing import NamedTuple, Optional

from . import journal
from .audit import NOTHING, ChainReport, Entries, Entry, Misfit, digest, parse
from .errors import WireError


class Line(NamedTuple):
    """entry: None when the line is none. whole: it ends in a newline."""

    file: str
    number: int
    hash: str
    entry: Optional[Entry]
    whole: bool


def verify(path: str) -> ChainReport:
    """Follow the chain through all files of the log. Raises AuditError when one can't be read."""
    noted = journal.head(path)  # before the lines: somebody may be writing
    names, lines = _whole(path)
    follow = _Follow()
    for line, after in zip(lines, [*lines[1:], None]):
        if not follow.take(line, after):
            break
    misfit = follow.misfit or _cut_off(path, noted, names, lines)
    return ChainReport(misfit is None, tuple(names), len(lines), misfit, tuple(follow.notes))


def last(path: str, count: int) -> Entries:
    """The newest `count` entries, the oldest of them first; lines that are none are left out. Raises AuditError."""
    kept: collections.deque[Entry] = collections.deque(maxlen=count)
    for name in reversed(journal.files(path)):
        older = [line.entry for line in _lines(name) if line.entry is not None]
        kept.extendleft(older[: -(count - len(kept)) - 1 : -1])
        if len(kept) == count:
            break
    return Entries(path, tuple(kept))


def about(path: str, ident: str) -> list[Entry]:
    """The entries of one action, in order. Raises AuditError.

    Of the newest two files: its lines, and the questions about it, lie close together.
    """
    mark = ident.encode()
    lines = (line for name in journal.files(path)[-2:] for line in journal.read(name).split(b"\n") if mark in line)
    return [entry for entry in map(_entry, lines) if entry is not None and entry.id == ident]


class _Follow:
    """misfit: the first line that does not fit, None as long as all do."""

    def __init__(self) -> None:
        self.misfit: Optional[Misfit] = None
        self.notes: list[str] = []
        self._expected: Optional[str] = None  # None before the first line

    def take(self, line: Line, after: Optional[Line]) -> bool:
        """False when `line` does not fit. after: the line behind it, which may tell that this one was cut off."""
        where = f"{os.path.basename(line.file)}:{line.number}"
        torn = after is not None and after.entry is not None and after.entry.kind == "torn"
        if torn and after is not None and after.entry is not None and after.entry.data.get("sha256") == line.hash:
            self.notes.append(f"{where} was cut off by a crash or a full disk, and the next line says so")
            self._expected = self._expected or NOTHING
            return True
        if not line.whole and after is None:
            self.notes.append(f"{where}, the last line, has no end: a crash or a full disk cut it off while writing")
            return True
        what = self._problem(line)
        if what:
            self.misfit = Misfit(line.file, line.number, what)
            return False
        self._expected = line.hash
        return True

    def _problem(self, line: Line) -> str:
        entry = line.entry
        if entry is None:
            return "it is no entry: it was changed, or something else wrote here"
        if self._expected is not None:
            fits = entry.prev == self._expected
            return (
                "" if fits else "it does not follow the line before it: one of the two was changed, or lines are gone"
            )
        if entry.kind == "rotated":
            self.notes.append(f"the log begins after {entry.data.get('after', '?')}, which is not here")
            return ""
        if entry.kind not in ("genesis", "torn"):
            return "it is no beginning: lines before it are gone"
        return "" if entry.prev == NOTHING else f"there was a log before it, whose last line had the hash {entry.prev}"


def _whole(path: str) -> tuple[list[str], list[Line]]:
    """All files and lines; read again when the log was rotated meanwhile."""
    while True:
        names = journal.files(path)
        lines = [line for name in names for line in _lines(name)]
        if len(journal.files(path)) == len(names):
            return names, lines


def _cut_off(path: str, noted: str, names: list[str], lines: list[Line]) -> Optional[Misfit]:
    """Whether the last line that was noted aside is missing. An older one is noted when a crash came in between."""
    if not noted or noted in {line.hash for line in lines}:
        return None
    if not names:
        return Misfit(path, 0, "the whole log is gone")
    return Misfit(names[-1], lines[-1].number if lines else 0, "the lines after it are gone, or it was changed")


def _lines(name: str) -> Iterator[Line]:
    content = journal.read(name)
    parts = content.split(b"\n")
    for number, text in enumerate(parts, 1):
        if number == len(parts) and not text:
            return  # behind the last newline
        yield Line(name, number, digest(text), _entry(text), number < len(parts))


def _entry(text: bytes) -> Optional[Entry]:
    try:
        return parse(text)
    except WireError:
        return None
