"""The state of the SGLang server, its processes and its log."""

from __future__ import annotations

import dataclasses
import enum
from typing import Optional

from .plan import Check, Verdict


class Phase(str, enum.Enum):
    STOPPED = "stopped"  # no process, port free
    LOADING = "loading"  # process alive, connection refused
    STARTING = "starting"  # 503
    READY = "ready"  # 200, and only that
    UNHEALTHY = "unhealthy"  # accepted but no answer, or another status
    CRASHED = "crashed"  # we started it, it is gone, nobody stopped it
    ORPHANS = "orphans"  # the parent is gone, its children live
    PORT_HELD = "port held"  # by a process that is not an SGLang server of ours


@dataclasses.dataclass(frozen=True)
class ProcessInfo:
    """A process, told apart from a later one with the same pid by `start_ticks` (field 22 of /proc/PID/stat).

    started: seconds since the epoch on the container's clock. age: seconds. state: the letter of /proc/PID/stat.
    ours: hsconsole started it, or it is a child of one it started; why: on what ground.
    holds: addresses of the server's port that it listens on. thread: set when only that thread of a dead process does.
    cgroup: path of its control group.
    """

    pid: int
    start_ticks: int
    command: str
    user: str = ""
    state: str = ""
    started: float = 0.0
    age: float = 0.0
    rss_bytes: int = 0
    ours: bool = False
    why: str = ""
    holds: tuple[str, ...] = ()
    thread: Optional[int] = None
    cgroup: str = ""


@dataclasses.dataclass(frozen=True)
class LoadProgress:
    """How far a load is, read from the log. left: seconds to go as SGLang estimates them."""

    stage: str
    percent: Optional[float] = None
    done: Optional[int] = None
    total: Optional[int] = None
    left: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What the last canary said of a server, and when (seconds since the epoch by the container's clock)."""

    verdict: Verdict
    at: float


@dataclasses.dataclass(frozen=True)
class ServerState:
    """at: seconds since the epoch on the container's clock, when this was looked at. age: of the server, seconds.

    health_status: HTTP status of GET /health, None when refused or without answer; health_ms: its time.
    prefill_at: when the log gave that rate, seconds since the epoch by the container's clock.
    patch_loaded: version of the dumper that the running server says it loaded.
    canary: of the running server's last canary, whoever ran it; None when there was none since it started.
    """

    phase: Phase
    detail: str
    at: float
    port: int
    pid: Optional[int] = None
    age: Optional[float] = None
    sglang_version: Optional[str] = None
    model_path: Optional[str] = None
    health_status: Optional[int] = None
    health_ms: Optional[float] = None
    load: Optional[LoadProgress] = None
    running: Optional[int] = None
    queued: Optional[int] = None
    prefill_tokens_per_s: Optional[float] = None
    prefill_at: Optional[float] = None
    processes: tuple[ProcessInfo, ...] = ()
    log_path: Optional[str] = None
    patch_loaded: Optional[str] = None
    cause: Optional[str] = None  # of a crash, in a sentence
    remedy: str = ""  # what to do about it
    canary: Optional[Judgement] = None


@dataclasses.dataclass(frozen=True)
class Preflight:
    """What stands between now and a good start, one page."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.verdict is not Verdict.BAD for check in self.checks)


@dataclasses.dataclass(frozen=True)
class LogLines:
    """New lines of the server's log, decoded with replacement, without line ends.

    note: set when the file was truncated, replaced or deleted while it was followed; skipped: lines left out.
    place: where the next ones begin, for a later `watch.log` to go on from; the agent's own words, empty without a log.
    """

    lines: tuple[str, ...]
    path: str
    note: str = ""
    skipped: int = 0
    place: str = ""
