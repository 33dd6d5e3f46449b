"""A chained log on disk: lines are only ever added, by any number of writers, one at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import stat
import time
from collections.abc import Iterator

from . import folders, locks
from .audit import NOTHING, AuditError, Entry, digest, line_of, now

ROTATE_AT = 16 << 20  # bytes
LOCK_WAIT = 1.0  # seconds; a stop must not wait for whoever froze with the lock in hand
BLOCK = 1 << 16
LONGEST = 64 << 20  # bytes of a line; what a log has room for is far less


def append(path: str, entry: Entry, rotate_at: int = ROTATE_AT) -> None:
    """Add `entry`, chained to the last line, on disk when this returns. Raises AuditError.

    Beside `path` lies `path.head`: the lock, and the hash of the last line, by which lines cut off the end are missed.
    """
    try:
        folders.make(os.path.dirname(path))
        with _locked(path) as head:
            last = _prepare(path, _read_head(head), rotate_at)
            last = _add(path, dataclasses.replace(entry, prev=last))
            with contextlib.suppress(OSError):  # an older head is still one of the chain's
                os.pwrite(head, last.encode(), 0)
    except OSError as error:
        raise AuditError(
            f"{path}: {error.strerror or error}", "Make it writable, and see that there is room."
        ) from None


def files(path: str) -> list[str]:
    """The log's files, the oldest first. Raises AuditError."""
    name = re.compile(re.escape(os.path.basename(path)) + r"\.(\d+)")
    try:
        found = [match for match in map(name.fullmatch, os.listdir(os.path.dirname(path))) if match]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AuditError(f"{os.path.dirname(path)} can't be listed: {error.strerror}") from None
    rotated = sorted(found, key=lambda match: int(match[1]))
    paths = [os.path.join(os.path.dirname(path), match[0]) for match in rotated]
    return [*paths, path] if os.path.lexists(path) else paths


def lines(path: str) -> Iterator[bytes]:
    """The lines of one file, each with its newline; one that is longer than LONGEST in pieces. Raises AuditError."""
    try:
        with os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
            yield from iter(functools.partial(file.readline, LONGEST), b"")
    except OSError as error:
        raise AuditError(f"{path} can't be read: {error.strerror or error}") from None


def head(path: str) -> str:
    """The last line's hash as its writer noted it; empty where there is none."""
    try:
        handle = _open(f"{path}.head", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return _read_head(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[int]:
    """The descriptor of `path.head`, locked, and still the file that others would lock."""
    deadline = time.monotonic() + LOCK_WAIT
    while True:
        handle = _open(f"{path}.head", os.O_RDWR | os.O_CREAT)
        try:
            if locks.take(handle) and _is_at(handle, f"{path}.head"):
                yield handle
                return
        finally:
            os.close(handle)
        if time.monotonic() > deadline:
            raise OSError("somebody else has it locked for too long")
        time.sleep(0.005)


def _is_at(handle: int, path: str) -> bool:
    """Not when somebody removed it between opening and locking: then two writers would hold a lock each."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _open(path: str, flags: int) -> int:
    """Only a file of our own, for our eyes: no link and no pipe that somebody put there. Raises OSError."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    found = os.fstat(handle)
    problem = ""
    if not stat.S_ISREG(found.st_mode):
        problem = "it is no plain file"
    elif found.st_uid != os.geteuid():
        problem = f"it belongs to user {found.st_uid}"
    if problem:
        os.close(handle)
        raise OSError(problem)
    if flags & os.O_CREAT and found.st_mode & 0o077:
        os.fchmod(handle, 0o600)
    return handle


def _read_head(handle: int) -> str:
    text = os.pread(handle, 64, 0).decode("ascii", "replace")
    return text if re.fullmatch("[0-9a-f]{64}", text) else ""


def _prepare(path: str, noted: str, rotate_at: int) -> str:
    """Have a log that ends in a whole line; returns that line's hash."""
    try:
        handle = _open(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        # a noted hash without a log: the log was taken away, and `prev` says so for ever
        return _add(path, Entry("genesis", now(), noted or NOTHING))
    try:
        last, fragment = _end(handle)
        size = os.fstat(handle).st_size
    finally:
        os.close(handle)
    if fragment:
        data = {"sha256": digest(fragment), "bytes": len(fragment)}
        return _add(path, Entry("torn", now(), last, data=data), b"\n")
    if size == 0:
        return _add(path, Entry("genesis", now(), noted or NOTHING))
    return last if size < rotate_at else _rotate(path, last)


def _rotate(path: str, last: str) -> str:
    numbers = [int(one.rpartition(".")[2]) for one in files(path) if one != path]
    aside = f"{path}.{max(numbers, default=0) + 1}"
    os.rename(path, aside)
    return _add(path, Entry("rotated", now(), last, data={"after": os.path.basename(aside)}))


def _add(path: str, entry: Entry, before: bytes = b"") -> str:
    """Write one line, whole or not at all as far as that is ours to say; returns its hash."""
    line = line_of(entry)
    handle = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(handle).st_size
        try:
            left = memoryview(before + line + b"\n")
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)
    return digest(line)


def _end(handle: int) -> tuple[str, bytes]:
    """The hash of the last whole line, and what a crash left behind it without a newline."""
    position = os.fstat(handle).st_size
    tail = b""
    while position > 0 and tail.count(b"\n") < 2:
        start = max(0, position - BLOCK)
        tail = os.pread(handle, position - start, start) + tail
        position = start
    whole, _, fragment = tail.rpartition(b"\n")
    return (digest(whole.rpartition(b"\n")[2]) if whole else NOTHING), fragment
