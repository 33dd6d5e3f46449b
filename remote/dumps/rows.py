"""One dump at a glance: its state and row, from names, sizes and meta.json alone. No tensor is opened."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
from typing import Optional

from remote.wire.dumps import DumpRow, DumpState

from . import meta as metadata
from .files import listing, read_small
from .meta import ITEM_SIZES, Meta

QUIET_S = 60.0  # without `done` and without a change for so long, a dump is partial
FRAMING = range(600, 2049)  # bytes of zip around a payload, by all releases of torch seen
_NAME = re.compile(r"(?:req_|\.req_)(0|[1-9][0-9]{0,14})(\.[0-9]+)?", re.ASCII)


def number_of(name: str) -> Optional[int]:
    """N of `req_N`, or of `.req_N.<pid>`, which is being written; None for every other name."""
    found = _NAME.fullmatch(name)
    if found is None or name.startswith(".") != (found[2] is not None):
        return None
    return int(found[1])


def numbers(folder: str) -> list[int]:
    """Of all dumps in `folder`, ascending, one twice that is there twice; none where it can't be listed."""
    try:
        return sorted(number for number in map(number_of, os.listdir(folder)) if number is not None)
    except OSError:
        return []


def examine(folder: str, name: str) -> Optional[DumpRow]:
    """The row of the directory `name` in `folder`, None when it is no directory. A dump without `done` is WRITING here.

    Never raises: what can't be read is CORRUPT and says why, what has vanished is GONE.
    """
    path = os.path.join(folder, name)
    number = number_of(name)
    if number is None:
        return None
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            return None
        found = listing(path)
    except (FileNotFoundError, NotADirectoryError):
        return DumpRow(number, DumpState.GONE, 0.0, note="taken away")
    except OSError as error:
        return DumpRow(number, DumpState.CORRUPT, 0.0, note=f"can't be read: {error.strerror}")
    sizes = {file: entry.st_size for file, entry in found.items() if stat.S_ISREG(entry.st_mode)}
    changed = max([status.st_mtime, *(entry.st_mtime for entry in found.values())])
    row = DumpRow(number, DumpState.WRITING, changed, size=sum(sizes.values()))
    if "error" in found:
        return _told(row, metadata.read(path), DumpState.ERROR, _cause(path))
    if "done" not in sizes:
        return _unfinished(row, name)
    return _finished(row, path, sizes)


def settle(row: DumpRow, age: float) -> DumpRow:
    """`row` as it is when nothing about it has changed for `age` seconds: a quiet WRITING is PARTIAL."""
    if row.state is DumpState.WRITING and age > QUIET_S:
        return dataclasses.replace(row, state=DumpState.PARTIAL, note="no done, and nothing written for a minute")
    return row


def structure(meta: Meta, sizes: dict[str, int]) -> str:
    """The first thing in which files and metadata disagree, by names and sizes; empty when they agree."""
    if meta.problems:
        return meta.problems[0]
    for name in meta.names:
        if name not in sizes:
            return f"{name} is missing"
        problem = size_problem(meta, name, sizes[name])
        if problem:
            return problem
    return ""


def size_problem(meta: Meta, name: str, size: int) -> str:
    """What is wrong with a file of `size` bytes: against the size meta.json has, else against what its rows need."""
    record = meta.files.get(name)
    if record is not None:
        return "" if record.bytes == size else f"{name} has {size:,} bytes, meta.json says {record.bytes:,}"
    if name == metadata.IDS:
        payloads = [(meta.num_tokens or 0) * 8]
    else:
        itemsizes = (ITEM_SIZES[meta.dtype],) if meta.dtype in ITEM_SIZES else (2, 4)
        payloads = [(meta.num_tokens or 0) * (meta.hidden_size or 0) * itemsize for itemsize in itemsizes]
    if any(size - payload in FRAMING for payload in payloads):
        return ""
    verb = "holds more than its rows" if size > max(payloads) else "is cut short"
    return f"{name} {verb}: {size:,} bytes, its rows need {payloads[0]:,}"


def _finished(row: DumpRow, path: str, sizes: dict[str, int]) -> DumpRow:
    meta = metadata.read(path)
    problem = structure(meta, sizes)
    if problem and not os.path.isdir(path):
        return DumpRow(row.number, DumpState.GONE, row.at, note="taken away")
    return _told(row, meta, DumpState.CORRUPT if problem else DumpState.COMPLETE, problem)


def _told(row: DumpRow, meta: Meta, state: DumpState, note: str) -> DumpRow:
    """`row` with what meta.json tells about it, as far as it tells."""
    return dataclasses.replace(
        row,
        state=state,
        at=meta.timestamp or row.at,
        tokens=meta.num_tokens,
        layers=meta.captured_at_layers or (),
        rid=meta.rid,
        note=note,
    )


def _unfinished(row: DumpRow, name: str) -> DumpRow:
    pid = name.rpartition(".")[2] if name.startswith(".") else ""
    if pid and not os.path.isdir(f"/proc/{pid}"):
        return dataclasses.replace(row, state=DumpState.PARTIAL, note=f"its writer is gone (pid {pid})")
    return row


def _cause(path: str) -> str:
    """What the dumper says in its `error` file, in a line."""
    try:
        text = read_small(os.path.join(path, "error"), 16 * 1024).decode("utf-8", "replace")
    except OSError as error:
        return f"its error file can't be read: {error.strerror}"
    try:
        said = json.loads(text)
        return f"{said['cause']}: {said['detail']}"[:400]
    except (ValueError, TypeError, KeyError, RecursionError):
        return text[:400]
