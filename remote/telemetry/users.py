"""Who uses files of /dev/shm: every process's descriptors and memory maps, once."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterator

from remote import processes
from remote.processes import PROC, Process
from remote.telemetry import segments

DELETED = " (deleted)"
# Of a line of /proc/PID/maps: device, inode, path. What is mapped goes by inode: a semaphore is mapped under the name
# that it had before its maker linked it to its own.
MAPPED = re.compile(rb"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)$", re.MULTILINE)
FILES_UID = re.compile(r"^Uid:\s+\d+\s+\d+\s+\d+\s+(\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class User:
    """A process that has segments open or mapped, or is SGLang's and may have at any moment.

    uid: of the files that it makes; -1 when it has ended. since: when it started, seconds since the epoch as the clock
    goes now.
    """

    pid: int
    uid: int
    since: float
    command: str
    inodes: frozenset[int]


@dataclasses.dataclass(frozen=True)
class Uses:
    """users: all that were seen. unseen: pids that may not be looked into. started: by pid, for each, as User.since.

    names: last part of the path of all that is open, on whatever file system.
    """

    users: tuple[User, ...]
    names: frozenset[str]
    unseen: tuple[int, ...]
    started: dict[int, float]


def look(device: int) -> Uses:
    """Every use of the file system `device` that this user may see."""
    users: list[User] = []
    names: set[str] = set()
    unseen: list[int] = []
    started: dict[int, float] = {}
    for process in processes.table().values():
        if process.gone or process.pid == os.getpid():
            continue
        since = started[process.pid] = time.time() - process.age
        inodes: set[int] = set()
        try:
            for folder in _folders(process):
                inodes |= _opened(folder, device, names) | _mapped(folder, device)
        except PermissionError:
            unseen.append(process.pid)
            continue
        if inodes or processes.is_sglang(process):
            users.append(User(process.pid, _uid(process.pid), since, process.command, frozenset(inodes)))
    return Uses(tuple(users), frozenset(names), tuple(unseen), started)


def _folders(process: Process) -> Iterator[str]:
    """Where its descriptors and maps are to be read; where its main thread is dead, those of each thread."""
    folder = f"{PROC}/{process.pid}"
    yield folder
    if process.state == "Z":
        yield from (f"{folder}/task/{task}" for task in _names(f"{folder}/task"))


def _names(folder: str) -> list[str]:
    """Raises PermissionError; nothing when the process has ended."""
    try:
        return os.listdir(folder)
    except PermissionError:
        raise
    except OSError:
        return []


def _opened(folder: str, device: int, names: set[str]) -> set[int]:
    """Inodes of the segments that it has open; the name of all that it has open goes into `names`."""
    found = set()
    for descriptor in _names(f"{folder}/fd"):
        link = f"{folder}/fd/{descriptor}"
        try:
            target = os.readlink(link)
            names.add(os.path.basename(_plain(target)))
            # only there asked for its status: that of a file elsewhere may hang
            if _is_segments(target):
                status = os.stat(link)
                found.update([status.st_ino] if status.st_dev == device else [])
        except PermissionError:
            raise
        except OSError:  # closed
            continue
    return found


def _mapped(folder: str, device: int) -> set[int]:
    try:
        with open(f"{folder}/maps", "rb") as file:
            text = file.read()
    except PermissionError:
        raise
    except OSError:
        return set()
    wanted = os.major(device), os.minor(device)
    return {
        int(inode)
        for major, minor, inode, path in MAPPED.findall(text)
        if (int(major, 16), int(minor, 16)) == wanted and not _is_deeper(os.fsdecode(path))
    }


def _plain(path: str) -> str:
    return path[: -len(DELETED)] if path.endswith(DELETED) else path


def _is_segments(path: str) -> bool:
    """Is it a file right in /dev/shm, here or in a mount namespace from where that is not to be seen?"""
    return os.path.dirname(path) in (str(segments.SHM), "/")


def _is_deeper(path: str) -> bool:
    """Below a folder of /dev/shm: a dump, say."""
    return path.startswith(f"{segments.SHM}/") and not _is_segments(path)


def _uid(pid: int) -> int:
    try:
        with open(f"{PROC}/{pid}/status", encoding="utf-8", errors="replace") as file:
            match = FILES_UID.search(file.read())
    except OSError:
        return -1
    return int(match.group(1)) if match else -1
