"""One dump in full: its row, metadata, files and every check."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Optional

from remote.wire.dumps import DumpDetail, DumpFile, DumpRow, DumpState
from remote.wire.errors import DumpError

from . import attempts, checks, counter, rows
from .dump import Dump
from .recorded import file_problem

_CHECKED = (DumpState.COMPLETE, DumpState.CORRUPT)


def show(dump_dir: str, number: int) -> DumpDetail:
    """Reads every tensor once, in chunks (under 24 MiB of memory). A dump that was taken away has the state GONE.

    Raises DumpError when `req_<number>` is no directory, and for nothing that is inside it.
    """
    name = _name(dump_dir, number)
    path = os.path.join(dump_dir, name)
    row = _row(dump_dir, name)
    if row.state is DumpState.GONE:
        return DumpDetail(dataclasses.replace(row, note=_not_there(number, counter.unclaimed(dump_dir))), path)
    try:
        dump = Dump(path, number)
    except (FileNotFoundError, NotADirectoryError):
        return DumpDetail(_row(dump_dir, name), path)
    except OSError:
        return DumpDetail(row, path)
    made = tuple(checks.run(dump)) if row.state in _CHECKED else ()
    after = _row(dump_dir, name)
    if after.state is DumpState.GONE:
        return DumpDetail(after, path, dump.meta.raw)
    row = dataclasses.replace(row, **attempts.standing(dump_dir, row)._asdict())
    return DumpDetail(row, path, dump.meta.raw, files(dump), made)


def _not_there(number: int, after: Optional[int]) -> str:
    """after: the number of the next request; None where no counter tells."""
    if after is None:
        return f"req_{number} is not there"
    return counter.never_was(number, after) or f"req_{number} is not there: taken away since, or never written"


def files(dump: Dump) -> tuple[DumpFile, ...]:
    """Every file that is there or should be: tensors first."""
    complete = "done" in dump.sizes
    missing = [name for name in dump.meta.names if name not in dump.sizes] if complete else []
    names = sorted({*missing, *dump.sizes}, key=lambda name: (not name.endswith(".pt"), len(name), name))
    return tuple(_file(dump, name) for name in names)


def _name(dump_dir: str, number: int) -> str:
    """The dump's directory: `req_N`, or `.req_N.<pid>` while it is being written."""
    name = f"req_{number}"
    if os.path.lexists(os.path.join(dump_dir, name)):
        return name
    try:
        return next((other for other in os.listdir(dump_dir) if other.startswith(f".{name}.")), name)
    except OSError:
        return name


def _file(dump: Dump, name: str) -> DumpFile:
    if not name.endswith(".pt"):
        return DumpFile(name, dump.sizes[name])
    tensor = dump.tensors.get(name)
    found = DumpFile(name, dump.sizes.get(name, 0), expected=dump.expected(name), problem=file_problem(dump, name))
    if tensor is None:
        return found
    return DumpFile(name, found.size, tensor.payload, found.expected, tensor.dtype, tensor.shape, found.problem)


def _row(dump_dir: str, name: str) -> DumpRow:
    row = rows.examine(dump_dir, name)
    if row is None:
        raise DumpError(f"{os.path.join(dump_dir, name)} is no directory", "Look at it in a shell; it is no dump.")
    return rows.settle(row, time.time() - row.at)
