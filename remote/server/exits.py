"""How a server that was started here ended: its exit status, with what the log and the kernel say of it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from typing import Optional

from remote.processes import Identity
from remote.server import causes, kernel, log
from remote.server.causes import Death
from remote.server.record import Record
from remote.statedir import state_dir
from remote.wire.codec import decode
from remote.wire.errors import WireError
from remote.wire.masking import mask_text, secrets_of
from remote.wire.target import Target

LOG_END = 256 * 1024  # bytes of the log that are looked at
BEFORE, AFTER = 60.0, 5.0  # seconds around the end in which the kernel's words are about it
LARGEST = 10_000  # bytes


@dataclasses.dataclass(frozen=True)
class Exit:
    """status: negative when a signal ended it. at: seconds since the epoch.

    oom_kills: processes of its control group that the kernel ended for memory since the start; None when not counted.
    """

    pid: int
    start_ticks: int
    status: int
    at: float
    oom_kills: Optional[int] = None


def path(port: int) -> str:
    """Of the last server that ended on this port."""
    return os.path.join(state_dir(), f"server-{port}.exit")


def read(record: Record) -> Optional[Exit]:
    """How the server of `record` ended; None when it has not, or nobody was left to see it."""
    try:
        with open(path(record.port), "rb") as file:
            ended = decode(Exit, json.loads(file.read(LARGEST)))
    except (OSError, ValueError, RecursionError, WireError):
        return None
    return ended if Identity(ended.pid, ended.start_ticks) == record.identity and math.isfinite(ended.at) else None


def cause(record: Record, target: Target) -> Death:
    """Why the server of `record`, which is gone, died; secrets masked, for SGLang quotes the flags that it refuses."""
    ended = read(record)
    try:
        lines = log.last_lines(record.log, most_bytes=LOG_END)
    except OSError:
        lines = []
    found = causes.find(lines, traces(record, ended))
    return found._replace(what=mask_text(found.what, secrets_of(target.flags, target.env)))


def traces(record: Record, ended: Optional[Exit]) -> list[str]:
    """What there is besides the log, a line each.

    The kernel's log is the whole machine's: where the control group's own counter says that nobody was ended for
    memory, what the log says of that is about others.
    """
    first, last = (record.started, time.time()) if ended is None else (ended.at - BEFORE, ended.at + AFTER)
    found = [f"kernel: {line}" for line in kernel.told(max(first, record.started - AFTER), last)]
    if ended is None:
        return ["exit unknown", *found]
    if ended.oom_kills == 0:
        found = [line for line in found if "ut of memory" not in line]
    counted = "unknown" if ended.oom_kills is None else ended.oom_kills
    return [f"exit {ended.status}", f"oom_kill {counted}", *found]
