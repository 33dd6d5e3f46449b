"""What is kept of a server that was started here, so that another link, or another operator, knows it again."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Optional

from remote.processes import Identity
from remote.statedir import state_dir, write_json
from remote.wire import locks
from remote.wire.codec import decode, encode
from remote.wire.errors import OperatorError, Refused, ServerError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOGS_KEPT = 3
NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # for a lock
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)  # on that file system
TO_BE_SAID = 1.0  # seconds at most between having a lock and having said who has it
_operator: ContextVar[str] = ContextVar("operator", default="")


@dataclasses.dataclass(frozen=True)
class Record:
    """A start. started, stopped: seconds since the epoch. boot_id: of the machine: pids mean nothing after the next.

    argv: secrets masked. env: names only. health_path: what can be asked without making a dump.
    gpus: bytes of memory in use just before the start, by index.
    """

    port: int
    pid: int
    start_ticks: int
    boot_id: str
    argv: tuple[str, ...]
    env: tuple[str, ...]
    log: str
    started: float
    by: str
    sglang_version: Optional[str] = None
    health_path: str = "/health"
    gpus: dict[str, int] = dataclasses.field(default_factory=dict)
    stopped: Optional[float] = None

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_ticks)


def boot_id() -> str:
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def who() -> str:
    """The user of this agent, and where from."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid {os.getuid()}"
    client = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    return f"{name} from {client}" if client else name


@contextlib.contextmanager
def acting_for(operator: str) -> Iterator[None]:
    """Who is turned away meanwhile is told of `operator`: all may log in as one user, and from one address."""
    token = _operator.set(operator[:100])
    try:
        yield
    finally:
        _operator.reset(token)


def log_path(port: int) -> str:
    return os.path.join(state_dir(), f"server-{port}.log")


def read(port: int) -> Optional[Record]:
    """The record of the last start on `port`; None when there is none that can be read."""
    try:
        text = _path(port).read_text(encoding="utf-8")
        return decode(Record, json.loads(text))
    except (OSError, ValueError, RecursionError, OperatorError):
        return None


def write(record: Record) -> None:
    """Atomic: a reader sees the old record or the new one."""
    write_json(os.fspath(_path(record.port)), encode(record))


def mark_stopped(record: Record) -> None:
    """Note that the server was stopped on purpose; a full disk must not keep it from being stopped."""
    with contextlib.suppress(OSError):
        write(dataclasses.replace(record, stopped=time.time()))


def _path(port: int) -> Path:
    return Path(state_dir()) / f"server-{port}.json"


def private(path: str, flags: int) -> int:
    """An `opener` for files that only their owner reads: logs hold prompts."""
    return os.open(path, flags, 0o600)


def rotate_log(port: int) -> str:
    """Put the last log aside (a few are kept) and return the path for the next one."""
    path = log_path(port)
    for number in range(LOGS_KEPT - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}.{number}", f"{path}.{number + 1}")
    with contextlib.suppress(FileNotFoundError):
        os.replace(path, f"{path}.1")
    return path


@contextlib.contextmanager
def lock(port: int, purpose: str) -> Iterator[None]:
    """Only one at a time may start or stop the server of a port. Raises Refused, naming who does and since when.

    Where there is no place for it nobody is turned away: a full disk must not keep a server from being stopped, and a
    start has no place for its log then. Raises ServerError when it can't be opened for another reason.
    """
    handle = _open_lock(port)
    if handle is None:
        yield
        return
    try:
        if not _take(handle):
            raise Refused(
                f"port {port}: {_holder(handle)} at this moment",
                "Wait until that has ended, then look at the server again. If it hangs, end that process.",
            )
        operator = _operator.get()
        by = f"{operator} ({who()})" if operator else who()
        _say(handle, f"{by} {purpose} the server (since {time.strftime('%H:%M:%S')}, pid {os.getpid()} there)")
        try:
            yield
        finally:
            _say(handle, "")  # the next one may be asked for before it has said who it is
    finally:
        os.close(handle)


def _open_lock(port: int) -> Optional[int]:
    """None where there is no place for it."""
    try:
        path = Path(state_dir()) / f"server-{port}.lock"
    except OperatorError:
        return None
    try:
        # no descriptor leaks to the server: Python's are closed on exec
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno in NO_PLACE:
            return None
        raise ServerError(
            f"{path}: {error.strerror}", "See whose it is: `ls -l`. Where another user left it, remove it as that user."
        ) from None


def _take(handle: int) -> bool:
    """Also where the file system has no locks."""
    try:
        return locks.take(handle)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return True
        raise


def _say(handle: int, text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.truncate(handle, 0)
        os.pwrite(handle, text.encode("utf-8", "replace"), 0)


def _holder(handle: int) -> str:
    deadline = time.monotonic() + TO_BE_SAID
    while True:
        text = os.pread(handle, 1000, 0).decode("utf-8", "replace")
        if text or time.monotonic() > deadline:
            return text or "somebody"
        time.sleep(0.02)
