"""The lines of the patch in a model file: ours stand between marks, the forerunner's are known by their names.

All work is on bytes: every source encoding of Python keeps ASCII as it is, so nothing else needs to be understood
and line ends, BOM and a missing last newline survive.
"""

from __future__ import annotations

import dataclasses
import re

from remote.wire.errors import PatchError
from remote.wire.patch import MarkedLine

VERSION = "3"

_OPEN = re.compile(rb"^[ \t]*# >>> hsconsole hidden-state dump (\w+) >>>")
_CLOSE = re.compile(rb"^[ \t]*# <<< hsconsole hidden-state dump (\w+) <<<")
_FOREIGN = re.compile(rb"_hs_dump|HS_DUMP|\b_(?:json|time|os|Path)_hs\b")
_ANY = b"hsconsole hidden-state dump"  # in every mark
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # as Python counts lines: a form feed ends none


def lines_of(raw: bytes) -> list[bytes]:
    """The lines of `raw` with their ends; joined they are `raw` again."""
    return _LINE.findall(raw)


def block(code: tuple[str, ...], indent: bytes, newline: bytes) -> list[bytes]:
    """The lines of one marked block."""
    opening = f"# >>> hsconsole hidden-state dump {VERSION} >>> take out with: hsconsole patch revert"
    closing = f"# <<< hsconsole hidden-state dump {VERSION} <<<"
    return [indent + line.encode("ascii") + newline for line in (opening, *code, closing)]


class BrokenMarksError(PatchError):
    """An opening mark without its end, or the other way round."""

    id = "patch.marks"


@dataclasses.dataclass(frozen=True)
class Marked:
    """A file taken apart. base: the file without the marked blocks. version: of the first mark, empty without any."""

    base: bytes
    lines: tuple[MarkedLine, ...] = ()
    version: str = ""


def take_apart(raw: bytes) -> Marked:
    """Split `raw` into marked lines and the rest. Raises BrokenMarksError, naming the line, when marks do not pair."""
    if _ANY not in raw:
        return Marked(raw)
    base, marked, version, opened = [], [], "", 0
    for number, line in enumerate(lines_of(raw), 1):
        opening, closing = _OPEN.match(line), _CLOSE.match(line)
        if bool(opening) and opened:
            raise _broken(number, f"the block opened in line {opened} has no end")
        if bool(closing) and not opened:
            raise _broken(number, "ends a block that none opens")
        if opening:
            opened, version = number, version or opening.group(1).decode("ascii")
        if opened:
            marked.append(_shown(number, line))
        else:
            base.append(line)
        if closing:
            opened = 0
    if opened:
        raise _broken(opened, "opens a block without an end")
    return Marked(b"".join(base), tuple(marked), version)


def has_marks(raw: bytes) -> bool:
    return _ANY in raw and any(_OPEN.match(line) or _CLOSE.match(line) for line in lines_of(raw))


def foreign_lines(raw: bytes) -> tuple[MarkedLine, ...]:
    """Every line that bears one of the patch's names, as `grep -n` shows them."""
    if b"_hs" not in raw and b"HS_DUMP" not in raw:  # quicker than the search for all the names
        return ()
    return tuple(_shown(number, line) for number, line in enumerate(lines_of(raw), 1) if _FOREIGN.search(line))


def _shown(number: int, line: bytes) -> MarkedLine:
    return MarkedLine(number, line.decode("utf-8", "replace").rstrip("\r\n"))


def _broken(number: int, what: str) -> BrokenMarksError:
    return BrokenMarksError(f"line {number}: {what}", "Put SGLang's own file back: reinstall that release of sglang.")
