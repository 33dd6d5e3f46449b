"""Processes as /proc shows them, told apart by pid and start time, and signalled only by both.

Everything here bears processes that vanish midway: a process that cannot be read any more is not there.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
import re
import signal as signals
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from remote.wire.errors import ServerError
from remote.wire.masking import mask_argv
from remote.wire.server import ProcessInfo

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SHOWN_COMMAND = 2000  # characters; a command line may have megabytes
STEP = 0.05  # seconds between two looks at who is left

TITLE = "sglang::"
PYTHON = re.compile(r"^(python|pypy)[\d.]*t?$")
OPTIONS_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")


class Identity(NamedTuple):
    """What tells a process from a later one with its pid. start_ticks: field 22 of /proc/PID/stat."""

    pid: int
    start_ticks: int


@dataclasses.dataclass(frozen=True)
class Process:
    """One process. argv is empty for kernel threads and zombies; a title set by the process is argv[0]."""

    pid: int
    start_ticks: int
    parent: int
    group: int
    session: int
    state: str
    threads: int
    rss_bytes: int
    name: str
    argv: tuple[str, ...]

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_ticks)

    @property
    def gone(self) -> bool:
        """Ended: only its parent's wait is outstanding. A dead leader with live threads is not gone: it holds files."""
        return self.state in ("Z", "X") and self.threads <= 1

    @property
    def age(self) -> float:
        """Seconds since it started, whatever the wall clock says."""
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - self.start_ticks / TICKS_PER_SECOND)

    @property
    def command(self) -> str:
        """The command line or title with secrets masked, cut to a length that can be shown."""
        text = " ".join(mask_argv(self.argv)) or f"[{self.name}]"
        return text if len(text) <= SHOWN_COMMAND else text[:SHOWN_COMMAND] + "…"


Table = Mapping[int, Process]


def read(pid: int) -> Optional[Process]:
    """The process `pid`, or None when there is none."""
    stat = _text(pid, "stat")
    if not stat:
        return None
    # the name is in parentheses and may hold spaces and parentheses of its own
    name_start, name_end = stat.index("("), stat.rindex(")")
    fields = stat[name_end + 2 :].split()
    return Process(
        pid=pid,
        start_ticks=int(fields[19]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        state=fields[0],
        threads=int(fields[17]),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
        name=stat[name_start + 1 : name_end],
        argv=_split(
            _of_any_thread(pid, "cmdline")
            if fields[0] == "Z" or int(fields[17]) > 1
            else _bytes(f"{PROC}/{pid}/cmdline")
        ),
    )


def _of_any_thread(pid: int, name: str) -> bytes:
    """That file of a process; when its main thread is dead, and the file empty, of a thread that lives."""
    folder = f"{PROC}/{pid}"
    found = _bytes(f"{folder}/{name}")
    if found:
        return found
    try:
        tasks = os.listdir(f"{folder}/task")
    except OSError:
        return b""
    return next(filter(None, (_bytes(f"{folder}/task/{task}/{name}") for task in tasks if task != str(pid))), b"")


def _split(cmdline: bytes) -> tuple[str, ...]:
    # a title is padded with NULs up to the room the arguments had
    return tuple(word.decode("utf-8", "replace") for word in cmdline.rstrip(b"\0").split(b"\0")) if cmdline else ()


def table() -> dict[int, Process]:
    """All processes of this PID namespace, by pid."""
    found = (read(int(entry)) for entry in os.listdir(PROC) if entry.isdigit())
    return {process.pid: process for process in found if process is not None}


def alive(identity: Identity) -> Optional[Process]:
    """The process with this pid and start time, unless it has ended."""
    process = read(identity.pid)
    return process if process and process.identity == identity and not process.gone else None


def descendants(pid: int, processes: Table) -> list[Process]:
    """Children of `pid`, their children and so on, parents before children."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue, seen = [pid], {pid}
    while queue:
        for child in children.get(queue.pop(0), []):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                queue.append(child.pid)
    return found


def family(identities: Iterable[Identity], processes: Table) -> set[Identity]:
    """`identities`, and what descends from those of them that are in the table."""
    found = set(identities)
    for identity in tuple(found):
        process = processes.get(identity.pid)
        if process is not None and process.identity == identity:
            found.update(child.identity for child in descendants(identity.pid, processes))
    return found


def is_launcher(process: Process) -> bool:
    """Its command line runs SGLang's server: `python -m sglang.launch_server …` or `sglang serve …`."""
    argv = process.argv
    if not argv:
        return False
    if not is_python(process):
        return os.path.basename(argv[0]) == "sglang" and argv[1:2] == ("serve",)
    module, rest = _python_runs(argv)
    if module == "sglang.launch_server" or module.endswith("sglang/launch_server.py"):
        return True
    return (module == "sglang.cli.main" or os.path.basename(module) == "sglang") and rest[:1] == ("serve",)


def is_python(process: Process) -> bool:
    return bool(process.argv) and PYTHON.match(os.path.basename(process.argv[0])) is not None


def _python_runs(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The module or script that a Python command line runs, and its arguments."""
    words = list(argv[1:])
    while words:
        word = words.pop(0)
        if word in OPTIONS_WITH_VALUE:
            words[:1] = []
        elif word == "-c" or word == "-":
            break
        elif word.startswith("-m") and len(word) > 2:
            return word[2:], tuple(words)
        elif word.startswith("-") and not word.startswith("--") and word.endswith("m"):
            return (words[0], tuple(words[1:])) if words else ("", ())
        elif not word.startswith("-"):
            return word, tuple(words)
    return "", ()


def is_sglang(process: Process) -> bool:
    """A process of an SGLang server by its title (`sglang::scheduler_TP0`) or its command line; never by mere text."""
    titled = len(process.argv) > 0 and process.argv[0].startswith(TITLE)
    return titled or is_launcher(process)


def flag_value(process: Process, *names: str) -> Optional[str]:
    """The value of the last of these flags on a command line, written `--flag value` or `--flag=value`."""
    value = None
    for index, word in enumerate(process.argv):
        name, equals, assigned = word.partition("=")
        if name in names:
            value = assigned if equals else (process.argv[index + 1] if index + 1 < len(process.argv) else None)
    return value


def namespace(kind: str) -> str:
    """Which one this process is in, as the kernel names it, `pid:[4026531836]`; empty when it doesn't tell."""
    try:
        return os.readlink(f"{PROC}/self/ns/{kind}")
    except OSError:
        return ""


def user(pid: int) -> str:
    """The name (or number) of the user that `pid` runs as; empty when it is gone."""
    status = _text(pid, "status")
    match = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    return user_name(int(match.group(1))) if match else ""


def user_name(uid: int) -> str:
    """Or the number, where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def cgroup(pid: int) -> str:
    """The path of the unified (or memory) control group of `pid`; empty when there is none to see."""
    for line in _text(pid, "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or "memory" in controllers.split(","):
            return path
    return ""


def environ(pid: int) -> dict[str, str]:
    """The environment that `pid` was started with; empty when it may not be read."""
    pairs = (item.partition("=") for item in _of_any_thread(pid, "environ").decode("utf-8", "replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def output_file(pid: int) -> Optional[str]:
    """The regular file that `pid` writes its output to, if it does."""
    for descriptor in ("2", "1"):
        try:
            path = os.readlink(f"{PROC}/{pid}/fd/{descriptor}")
        except OSError:
            continue
        if path.startswith("/") and os.path.isfile(path):
            return path
    return None


def _text(pid: int, name: str) -> str:
    return _bytes(f"{PROC}/{pid}/{name}").decode("utf-8", "replace")


def _bytes(path: str) -> bytes:
    """Empty where it can't be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def info(
    process: Process,
    *,
    ours: bool = False,
    why: str = "",
    holds: tuple[str, ...] = (),
    thread: Optional[int] = None,
) -> ProcessInfo:
    """The process as the console shows it. holds, thread: what it listens on, as ports.Holder has it."""
    age = process.age
    return ProcessInfo(
        pid=process.pid,
        start_ticks=process.start_ticks,
        command=process.command,
        user=user(process.pid),
        state=process.state,
        started=round(time.time() - age, 1),
        age=round(age, 1),
        rss_bytes=process.rss_bytes,
        ours=ours,
        why=why,
        holds=holds,
        thread=thread,
        cgroup=cgroup(process.pid),
    )


def send(identity: Identity, number: signals.Signals) -> bool:
    """Signal exactly this process. False when it has ended; raises ServerError when it may not be signalled.

    A pidfd is opened before the identity is checked, so the pid can't be another's between check and signal.
    """
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError):  # a kernel before 5.3, or a Python built on one (conda's)
        handle = -1
    try:
        if alive(identity) is None:
            return False
        if handle >= 0:
            signals.pidfd_send_signal(handle, number)
        else:
            os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise ServerError(
            f"may not send {number.name} to process {identity.pid} of user {user(identity.pid) or '?'}",
            f"Log in to the container as root or as that user, or run there: kill -{number.name[3:]} {identity.pid}",
        ) from None
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def survivors(identities: Iterable[Identity]) -> list[Process]:
    """Those of `identities` that have not ended."""
    return [process for process in map(alive, identities) if process is not None]


def wait_gone(identities: Sequence[Identity], seconds: float) -> Iterator[list[Process]]:
    """Yield who is left, again and again, until nobody is or `seconds` have passed."""
    deadline = time.monotonic() + seconds
    while True:
        left = survivors(identities)
        yield left
        if not left or time.monotonic() >= deadline:
            return
        time.sleep(STEP)
