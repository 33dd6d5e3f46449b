"""Is an audit log what was written? Its chain followed from the first line to the last, and the last lines read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
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
    """Follow the chain through all files of the log, a line at a time. Raises AuditError when one can't be read."""
    while True:
        noted = journal.head(path)  # before the lines: somebody may be writing
        names = journal.files(path)
        follow = _Follow(noted)
        for line, after in _with_next(line for name in names for line in _lines(name)):
            follow.take(line, after)
        if len(journal.files(path)) == len(names):  # else it was rotated meanwhile
            break
    misfit = follow.misfit or follow.cut_off(path, names)
    return ChainReport(misfit is None, tuple(names), follow.lines, misfit, tuple(follow.notes))


def last(path: str, count: int) -> Entries:
    """The newest `count` entries, the oldest of them first; lines that are none are left out. Raises AuditError."""
    newest: list[Entry] = []
    for name in reversed(journal.files(path)):
        entries = filter(None, map(_entry, reversed(list(journal.lines(name)))))
        newest.extend(itertools.islice(entries, count - len(newest)))
        if len(newest) == count:
            break
    return Entries(path, tuple(reversed(newest)))


def about(path: str, ident: str) -> list[Entry]:
    """The entries of one action, in order. Raises AuditError.

    Of the newest two files: its lines, and the questions about it, lie close together.
    """
    mark = ident.encode()
    lines = (line for name in journal.files(path)[-2:] for line in journal.lines(name) if mark in line)
    return [entry for entry in map(_entry, lines) if entry is not None and entry.id == ident]


class _Follow:
    """misfit: the first line that does not fit, None as long as all do. noted: the last line's hash, noted aside."""

    def __init__(self, noted: str) -> None:
        self.lines = 0
        self.misfit: Optional[Misfit] = None
        self.notes: list[str] = []
        self._noted = noted
        self._noted_was_there = False
        self._last = 0
        self._expected: Optional[str] = None  # None before the first line

    def take(self, line: Line, after: Optional[Line]) -> None:
        """after: the line behind it, which may tell that this one was cut off."""
        self.lines += 1
        self._last = line.number
        self._noted_was_there |= line.hash == self._noted
        if self.misfit is None:
            self._follow(line, after)

    def cut_off(self, path: str, names: Sequence[str]) -> Optional[Misfit]:
        """Whether the last line is missing. An older one is noted when a crash came in between."""
        if not self._noted:
            if names:
                self.notes.append(
                    f"{os.path.basename(path)}.head, which notes the last line, tells nothing: "
                    "lines cut off the end would not be missed"
                )
            return None
        if self._noted_was_there:
            return None
        if not names:
            return Misfit(path, 0, "the whole log is gone")
        return Misfit(names[-1], self._last, "the lines after it are gone, or it was changed")

    def _follow(self, line: Line, after: Optional[Line]) -> None:
        where = f"{os.path.basename(line.file)}:{line.number}"
        said = after.entry if after is not None else None
        if said is not None and said.kind == "torn" and said.data.get("sha256") == line.hash:
            self.notes.append(f"{where} was cut off by a crash or a full disk, and the next line says so")
            self._expected = self._expected or NOTHING
            return
        if not line.whole and after is None:
            self.notes.append(f"{where}, the last line, has no end: a crash or a full disk cut it off while writing")
            return
        what = self._problem(line)
        if what:
            self.misfit = Misfit(line.file, line.number, what)
        self._expected = line.hash

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


def _with_next(lines: Iterator[Line]) -> Iterator[tuple[Line, Optional[Line]]]:
    """Each line and the one behind it."""
    before: Optional[Line] = None
    for line in lines:
        if before is not None:
            yield before, line
        before = line
    if before is not None:
        yield before, None


def _lines(name: str) -> Iterator[Line]:
    for number, text in enumerate(journal.lines(name), 1):
        bare = text[:-1] if text.endswith(b"\n") else text
        yield Line(name, number, digest(bare), _entry(bare), bare is not text)


def _entry(text: bytes) -> Optional[Entry]:
    try:
        return parse(text)
    except WireError:
        return None
