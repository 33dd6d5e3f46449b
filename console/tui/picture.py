"""What the screen knows of the container: the last value of each kind, and how old it is. The UI thread's alone."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

from console.config.profile import Profile
from console.link import LinkPhase, LinkState
from console.operations.gpuholders import GpuHolders, in_use
from console.tui.clock import Clock
from console.tui.dump_list import DumpList
from console.tui.log_buffer import LogBuffer
from console.tui.run import Run
from remote.wire.dumps import Canary, DumpsChange
from remote.wire.patch import PatchStatus
from remote.wire.server import Judgement, LogLines, Phase, ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

GPU_HISTORY = 24  # samples
OVERDUE = 12.0  # seconds; what is watched comes every five, changed or not
NO_SERVER = (Phase.STOPPED, Phase.CRASHED, Phase.ORPHANS, Phase.PORT_HELD)


class Picture:
    def __init__(self, profile: Profile, clock: Clock) -> None:
        self.profile = profile
        self.clock = clock
        self.connect()
        self.server: ServerState | None = None
        self.server_seen = 0.0
        self.proving: Run | None = None  # the canary that runs by itself
        self.ending: Run | None = None  # the last stop or restart of this screen
        self.gpus: GpuSnapshot | None = None
        self.gpu_history: dict[int, deque[int]] = {}
        self.gpu_holders: GpuHolders | None = None
        self.gpu_holders_seen = 0.0
        self.shm: ShmSnapshot | None = None
        self.patch: PatchStatus | None = None
        self.patch_problem = ""
        self.dumps = DumpList()
        self.dumps_seen = False
        self.log = LogBuffer()
        self._true_at: dict[type, float] = {}  # when the last value of a kind was true
        self._alive: float | None = None
        self._offset = 0.0

    @property
    def live(self) -> bool:
        return self.link.phase is LinkPhase.LIVE

    @property
    def stale(self) -> float | None:
        """Seconds since the picture was last known to be true; None while the link is live or never was."""
        if self.live or self._alive is None:
            return None
        return max(self.clock.monotonic() - self._alive, 0.0)

    def age(self, kind: type) -> float | None:
        """Seconds since the last value of this kind was true, None before the first."""
        at = self._true_at.get(kind)
        return None if at is None else max(self.clock.monotonic() - at, 0.0)

    def overdue(self, kind: type) -> float | None:
        """That age, where it is more than it can be while all is well; None where the value is fresh.

        A value may be old on a live link: a call that hangs over there sends nothing.
        """
        age, stale = self.age(kind), self.stale
        return age if age is not None and age > OVERDUE + (stale or 0.0) else stale

    @property
    def unexplained(self) -> bool:
        """GPU memory is in use, no server is known to run, and there is a host to ask whose it is."""
        return (
            self.live
            and self.profile.proxmox is not None
            and self.server is not None
            and self.server.phase in NO_SERVER
            and self.gpus is not None
            and bool(in_use(self.gpus))
        )

    @property
    def stopping(self) -> bool:
        """Whether the server is unwell only because it is being stopped from here."""
        under_way = self.ending is not None and self.ending.ended is None
        return under_way and self.server is not None and self.server.phase in (Phase.UNHEALTHY, Phase.ORPHANS)

    def since(self, at: float) -> float:
        """Seconds since `at` of the container's clock; in a stale picture, when it was last true."""
        return max(self.clock.wall() + self._offset - at - (self.stale or 0.0), 0.0)

    def server_elapsed(self) -> float:
        """Seconds since the server's state came, as far as it is known to have lasted."""
        return max(self.clock.monotonic() - self.server_seen - (self.stale or 0.0), 0.0)

    def connect(self) -> None:
        """The link is to be made; there is none yet."""
        words = f"connecting to {address(self.profile)} …"
        self.link = LinkState(LinkPhase.CONNECTING, words, self.clock.monotonic())

    def see_link(self, state: LinkState) -> None:
        self.link = state
        if state.phase is LinkPhase.LIVE:
            self._alive = self.clock.monotonic()
            self._offset = state.clock_offset

    def see(self, value: Any) -> None:
        """Take in a value of a stream."""
        if self.live:
            self._alive = self.clock.monotonic()
        late = value.age if isinstance(value, GpuSnapshot) else 0.0
        self._true_at[type(value)] = self.clock.monotonic() - late
        if isinstance(value, ServerState):
            self.server, self.server_seen = value, self.clock.monotonic()
        elif isinstance(value, GpuSnapshot):
            self._see_gpus(value)
        elif isinstance(value, ShmSnapshot):
            self.shm = value
        elif isinstance(value, DumpsChange):
            self.dumps.change(value)
            self.dumps_seen = True
        elif isinstance(value, LogLines):
            self.log.add(value)

    def see_canary(self, pid: int | None, found: Canary) -> None:
        """What a canary found of the server `pid`, which the next look at that server will tell too."""
        if self.server is not None and self.server.pid == pid and not found.stopped:
            judged = Judgement(found.verdict, self.clock.wall() + self._offset)
            self.server = dataclasses.replace(self.server, canary=judged)

    def see_holders(self, found: GpuHolders | None) -> None:
        self.gpu_holders, self.gpu_holders_seen = found, self.clock.monotonic()

    def _see_gpus(self, snapshot: GpuSnapshot) -> None:
        self.gpus = snapshot
        for gpu in snapshot.gpus if not snapshot.problem else ():
            history = self.gpu_history.setdefault(gpu.index, deque(maxlen=GPU_HISTORY))
            if gpu.utilization is not None:
                history.append(gpu.utilization)


def address(profile: Profile) -> str:
    container = profile.container
    name = f"{container.user}@{container.host}" if container.user else container.host
    return f"{name}:{container.port}" if container.port and container.port != 22 else name
