"""The state of the server of one port: its processes, its answer to GET /health, its log, put together."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from typing import Any, Callable, Optional

from remote import ports, processes
from remote.dumps import claims
from remote.ports import Holder
from remote.processes import Identity, Process
from remote.server import answering, ask, exits, judgement, log, progress
from remote.server import find as finding
from remote.server import record as records
from remote.server.causes import Death
from remote.server.find import Found
from remote.server.http import Answer
from remote.server.record import Record
from remote.telemetry import watch as watching
from remote.wire import amounts
from remote.wire.plan import Verdict
from remote.wire.server import LoadProgress, Phase, ProcessInfo, ServerState
from remote.wire.target import Target

LOADED_LIMIT = 1 << 20  # bytes of a .loaded file
LOADING_PAUSE, READY_PAUSE = 1.0, 2.0  # seconds between two looks
UNWELL = {
    "T": "is stopped (SIGSTOP): kill -CONT lets it go on",
    "D": "is blocked in the kernel",
    "Z": "has a dead main thread and live others",
}


def read(target: Target) -> ServerState:
    """The state now. Takes at most a few seconds, when the server hangs."""
    return Observer(target).look()


def watch(target: Target, emit: Callable[[Any], None], cancelled: threading.Event) -> None:
    """Send the state whenever it changes: looking each second while it loads, every two when it doesn't."""
    watching.changes(Observer(target).look, emit, cancelled, pause=_pause, essence=_essence)


def _pause(seen: ServerState) -> float:
    return LOADING_PAUSE if seen.phase in (Phase.LOADING, Phase.STARTING, Phase.UNHEALTHY) else READY_PAUSE


def _essence(seen: ServerState) -> Any:
    """What counts as a change: not the clock, not the jitter of times and memory."""
    health = None if seen.health_ms is None else round(seen.health_ms, -2)
    shown = tuple((p.pid, p.start_ticks, p.command, p.ours, p.state in ("T", "Z")) for p in seen.processes)
    return dataclasses.replace(seen, at=0.0, age=None, health_ms=health, processes=()), shown


def describe(holder: Holder) -> str:
    """Who holds a port, in words."""
    if holder.process is None:
        return "a process that can't be seen from here (another user's, or outside this container)"
    process = holder.process
    thread = f", by its thread {holder.thread}: its main thread is dead" if holder.thread else ""
    return f"pid {process.pid} of {processes.user(process.pid) or '?'} ({process.command[:200]}){thread}"


class Observer:
    """Looks at one target again and again. Keeps what doesn't change while a server lives."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._server: Optional[tuple[Identity, ask.Server]] = None
        self._was_ready: Optional[Identity] = None
        self._orphans: frozenset[int] = frozenset()  # seen to stay
        self._own_sockets: frozenset[int] = frozenset()  # seen to be the server's: looking through all files is slow
        self._death: Optional[tuple[object, Death]] = None  # and what told it

    def look(self) -> ServerState:
        found = finding.find(self.target)
        if found.parent is None and not self._orphans >= found.pids:
            found = finding.settled(self.target)
            self._orphans = found.pids
        if found.parent is not None:
            stranger = self._stranger(found)
            return self._held(found, stranger) if stranger else self._running(found)
        return self._orphaned(found) if found.members else self._absent(found)

    def _state(self, found: Found, phase: Phase, detail: str, **more: Any) -> ServerState:
        parent = found.parent
        return ServerState(
            phase=phase,
            detail=detail,
            at=time.time(),
            port=self.target.port,
            pid=parent.pid if parent else None,
            age=round(parent.age, 1) if parent else None,
            processes=_infos(found),
            log_path=_log_path(found),
            **more,
        )

    def _running(self, found: Found) -> ServerState:
        assert found.parent is not None  # noqa: S101 - callers look first
        server = self._ask(found.parent, found)
        health = server.health()
        lines = _log_end(found)
        was_ready = self._was_ready == found.parent.identity or progress.is_ready(lines)
        phase, detail, load = _judge(found.parent, health, lines, was_ready=was_ready)
        if phase is Phase.READY and server.health_path != ask.HEALTH:
            if lines and not progress.is_ready(lines) and not found.ours:
                phase, detail = Phase.STARTING, "listens, and has not said in its log that it is ready"
            else:
                detail += f" to {server.health_path} (on this server each GET /health would add a dump)"
        phase, detail = self._unless_silent(found.parent, phase, detail, lines)
        if phase is Phase.READY and server.door.tls:
            detail += " by HTTPS (its certificate is not verified: it is this machine's own)"
        if phase is Phase.READY:
            self._was_ready = found.parent.identity
        more: dict[str, Any] = {
            "health_status": health.status,
            "health_ms": round(health.ms, 1) if health.status else None,
            "load": load,
            "patch_loaded": self._patch_loaded(found),
            "canary": judgement.last(self.target.port, found.parent.identity),
            "sglang_version": found.record.sglang_version if found.record and found.ours else None,
        }
        return self._state(
            found, phase, detail, **{**more, **(_at_work(server, lines) if phase is Phase.READY else {})}
        )

    def _unless_silent(self, parent: Process, phase: Phase, detail: str, lines: list[str]) -> tuple[Phase, str]:
        """Not ready when it left the last request that hsconsole sent unanswered, and worked on none since."""
        last = answering.last(self.target.port, parent.identity)
        if phase is not Phase.READY or last is None or last.verdict is not Verdict.BAD:
            return phase, detail
        if progress.busy_until(lines) > last.at:
            return phase, detail
        at = time.strftime("%H:%M:%S", time.localtime(last.at))
        return Phase.UNHEALTHY, f"answers /health, but not requests: none came for the one of {at}"

    def _ask(self, parent: Process, found: Found) -> ask.Server:
        if self._server is None or self._server[0] != parent.identity:
            server = ask.Server(parent, self.target, found.record if found.ours else None)
            self._server = (parent.identity, server)
        return self._server[1]

    def _stranger(self, found: Found) -> Optional[Holder]:
        """A process of others that listens where our server will want to."""
        sockets = frozenset(listener.inode for listener in ports.listeners(self.target.port))
        if sockets <= self._own_sockets:
            return None
        holders = ports.holders(self.target.port)
        if any(holder.process is not None and holder.process.pid in found.pids for holder in holders):
            self._own_sockets = sockets
            return None
        return holders[0] if holders else None

    def _held(self, found: Found, holder: Holder) -> ServerState:
        what = f"{describe(holder)} holds port {self.target.port}"
        if found.parent is not None:
            what += f"; the server that loads (pid {found.parent.pid}) will fail when it wants to listen"
        return self._state(found, Phase.PORT_HELD, what)

    def _orphaned(self, found: Found) -> ServerState:
        holders = ports.holders(self.target.port)
        port = f"port {self.target.port} is {'held' if holders else 'free'}"
        detail = f"the server is gone, {len(found.members)} of its processes live on and may hold GPU memory; {port}"
        return self._state(found, Phase.ORPHANS, detail, patch_loaded=self._patch_loaded(found))

    def _absent(self, found: Found) -> ServerState:
        record = found.record
        death = self._cause(record) if record is not None and record.stopped is None else None
        why: dict[str, Any] = {"cause": death.what, "remedy": death.remedy} if death else {}
        if ports.listeners(self.target.port) and not ports.is_free(self.target.host, self.target.port):
            holders = ports.holders(self.target.port)
            what = describe(holders[0]) if holders else "a process that has just ended"
            return self._state(found, Phase.PORT_HELD, f"{what} holds port {self.target.port}", **why)
        if record is not None and death is not None:
            return self._state(found, Phase.CRASHED, f"pid {record.pid}, started by {record.by}, is gone", **why)
        last = records.read(self.target.port)
        restarted = record is None and last is not None and last.stopped is None
        return self._state(found, Phase.STOPPED, "the machine was restarted since" if restarted else "not running")

    def _cause(self, record: Record) -> Death:
        """Looked for anew when something tells more than before: that takes a tenth of a second."""
        told = record, exits.read(record), _changed(record.log)
        if self._death is None or self._death[0] != told:
            self._death = told, exits.cause(record, self.target)
        return self._death[1]

    def _patch_loaded(self, found: Found) -> Optional[str]:
        """The version of the dumper that a live process of the server says it loaded."""
        for member in found.members:
            said = claims.of_process(self.target.dump_dir, member.process, LOADED_LIMIT)
            if "dumper_version" in said:
                return str(said["dumper_version"])
        return None


def _judge(
    parent: Process, health: Answer, lines: list[str], *, was_ready: bool
) -> tuple[Phase, str, Optional[LoadProgress]]:
    """Phase, detail and progress by the answer to GET /health, and by it alone: only 200 is ready."""
    if was_ready and (health.refused or health.status == 503):
        return Phase.UNHEALTHY, f"was ready, now {health.problem or 'answers 503'}: it is ending", None
    if health.refused:
        load = progress.load(lines)
        return Phase.LOADING, _loading(load), load
    if health.status == 503:
        return Phase.STARTING, "answers 503: not ready yet", progress.load(lines)
    if health.status == 200:
        return Phase.READY, "answers 200", None
    if health.status is not None:
        return Phase.UNHEALTHY, f"answers {health.status}", None
    now = processes.read(parent.pid) or parent  # the wait for an answer took seconds
    unwell = UNWELL.get(now.state)
    why = f"; pid {parent.pid} {unwell}" if unwell else ""
    return Phase.UNHEALTHY, f"listens, but: {health.problem}{why}", None


def _loading(load: LoadProgress) -> str:
    done = "" if load.percent is None else f": {load.percent:.0f} %, {load.done} of {load.total}"
    left = "" if load.left is None else f", about {amounts.age(load.left)} left"
    return load.stage + done + left


def _at_work(server: ask.Server, lines: list[str]) -> dict[str, Any]:
    about = server.about()
    requests = server.loads() or progress.queues(lines) or (None, None)
    prefill = progress.prefill(lines)
    return {
        "sglang_version": about.version,
        "model_path": about.model_path,
        "running": requests[0],
        "queued": requests[1],
        "prefill_tokens_per_s": prefill.tokens_per_s if prefill else None,
        "prefill_at": prefill.at if prefill else None,
    }


def _infos(found: Found) -> tuple[ProcessInfo, ...]:
    return tuple(processes.info(member.process, ours=member.ours, why=member.why) for member in found.members)


def _changed(path: str) -> Optional[tuple[int, int]]:
    """Size and time of a file, by which a change is told; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _log_path(found: Found) -> Optional[str]:
    """Of a server of ours its record's; of another, the file its output goes to."""
    if found.record is not None and (found.ours or found.parent is None):
        return found.record.log
    return processes.output_file(found.parent.pid) if found.parent else None


def _log_end(found: Found) -> list[str]:
    path = _log_path(found)
    return _lines(path) if path else []


def _lines(path: str) -> list[str]:
    try:
        return log.last_lines(path, most_bytes=exits.LOG_END)
    except OSError:
        return []
