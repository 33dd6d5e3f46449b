"""What a running server says of itself, asked without ever making it run a request."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple, Optional

from remote import interpreter, processes
from remote.processes import Process
from remote.server import http
from remote.server.command import DUMP_DIR, QUIET_HEALTH
from remote.server.flags import parse
from remote.server.record import Record
from remote.server.release import health_can_be_quiet
from remote.wire.target import Target

HEALTH = "/health"
# answers without a request of one token, where /health would run one
NOT_HEALTH, NOT_HEALTH_OLD = "/model_info", "/get_model_info"
DEADLINE = 3.0  # seconds for an answer; a healthy server needs milliseconds
TLS = "--ssl-certfile"
OFF = ("0", "false", "no", "n", "off")


class Door(NamedTuple):
    """How a server is asked on this machine. key: that it wants to see, empty for none."""

    host: str
    port: int
    key: str
    tls: bool


def door(parent: Optional[Process], target: Target) -> Door:
    """Of the target's server; its own command line goes before what the profile says by now."""
    flags = {flag.name: " ".join(flag.values) for flag in parse(parent.argv if parent else target.flags)[0]}
    host = flags.get("--host", "127.0.0.1") if parent else target.host
    return Door(http.loopback(host), target.port, flags.get("--api-key", ""), TLS in flags)


@dataclasses.dataclass(frozen=True)
class About:
    """What doesn't change while a server lives."""

    version: Optional[str] = None
    model_path: Optional[str] = None


class Server:
    """Questions to the server of one parent process. Keeps what doesn't change."""

    def __init__(self, parent: Process, target: Target, record: Optional[Record] = None) -> None:
        """record: of this server, when it was started here."""
        self.door = door(parent, target)
        self.health_path = record.health_path if record else _health_path(parent, target)
        self._about: Optional[About] = None
        self._loads: Optional[str] = "/v1/loads?include=core"

    def health(self) -> http.Answer:
        return self._get(self.health_path)

    def about(self) -> About:
        """Version and model. The version costs a round trip to the scheduler, so it is asked once."""
        if self._about is None:
            info = self._first("/server_info", "/get_server_info")
            model = self._first("/model_info", "/get_model_info")
            self._about = About(_text(info, "version"), _text(model, "model_path") or _text(info, "model_path"))
        return self._about

    def loads(self) -> Optional[tuple[int, int]]:
        """Running and queued requests over all replicas; None where this release doesn't tell."""
        if self._loads is None:
            return None
        answer = self._get(self._loads)
        if answer.status == 404:
            self._loads = "/get_load" if self._loads != "/get_load" else None
            return self.loads()
        return _counts(answer.json)

    def _first(self, *paths: str) -> Any:
        return next((answer.json for answer in map(self._get, paths) if answer.status == 200), None)

    def _get(self, path: str) -> http.Answer:
        return http.get(self.door.host, self.door.port, path, DEADLINE, self.door.key, tls=self.door.tls)


def _health_path(parent: Process, target: Target) -> str:
    """/health, unless asking that would make this server dump a request of one token."""
    env = processes.environ(parent.pid)
    if not env.get(DUMP_DIR):
        return HEALTH
    file = interpreter.inspect(target.python, target.env).sglang_file
    can_be_quiet = file is None or health_can_be_quiet(Path(file).parent)
    if not can_be_quiet:
        return NOT_HEALTH_OLD
    return HEALTH if env.get(QUIET_HEALTH, "1").lower() in OFF else NOT_HEALTH


def _text(info: Any, key: str) -> Optional[str]:
    value = info.get(key) if isinstance(info, dict) else None
    return value if isinstance(value, str) else None


def _counts(answer: Any) -> Optional[tuple[int, int]]:
    replicas = answer.get("loads") if isinstance(answer, dict) else answer
    if not isinstance(replicas, list) or not all(isinstance(one, dict) for one in replicas):
        return None
    queued = sum(_count(one, "num_waiting_reqs") for one in replicas)
    if all("num_running_reqs" in one for one in replicas):
        return sum(_count(one, "num_running_reqs") for one in replicas), queued
    return sum(_count(one, "num_reqs") for one in replicas) - queued, queued


def _count(replica: dict[str, Any], key: str) -> int:
    value = replica.get(key)
    return value if isinstance(value, int) else 0
