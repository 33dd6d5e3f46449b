"""What is told of the GPUs before a recovery: the host is asked where memory is in use, and none waits long for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from console.config.profile import Container, Profile, Proxmox, Server
from console.errors import LinkError
from console.operations import recovery_gpus
from console.operations.hostgpus import Holder, HostGpu, HostGpus
from console.operations.hostview import HostProcess
from console.operations.recovery_gpus import GpuMemory, ask
from remote.wire.codec import encode
from remote.wire.telemetry import Gpu, GpuSnapshot

PROFILE = Profile(
    name="here",
    container=Container(host="ct129", python="/p"),
    proxmox=Proxmox(host="pve1", vmid=129),
    server=Server(model_path="/m"),
)
ORPHAN = HostProcess(4343, 904, 53, "S", "sglang::scheduler_TP0", "sglang::schedul", 0, 9.0, "/")
HELD = HostGpus((HostGpu("GPU-a", 5, (Holder(4343, 71 << 30, ORPHAN),)),))
HANG = "hang"


def used(gib: int) -> GpuSnapshot:
    return GpuSnapshot(0.0, (Gpu(3, memory_used=gib << 30, uuid="GPU-a"),))


class Here:
    """The agent, and the host: each gives its answer, fails, or hangs until the test is over."""

    def __init__(self, driver: Any, host: Any) -> None:
        self.driver = driver
        self.host = host
        self.asked: list[str] = []
        self.over = threading.Event()

    def call(self, name: str, **args: Any) -> Any:
        return encode(self._answer(name, self.driver))

    def gpus(self) -> Any:
        return self._answer("host", self.host)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def _answer(self, who: str, value: Any) -> Any:
        self.asked.append(who)
        if value is HANG:
            self.over.wait(30)
            raise LinkError("too late", "")
        if isinstance(value, Exception):
            raise value
        return value


@pytest.fixture
def overs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Here]]:
    made: list[Here] = []
    monkeypatch.setattr(recovery_gpus, "ProxmoxHost", lambda proxmox: made[-1])
    yield made
    for here in made:
        here.over.set()


@pytest.mark.parametrize(
    ("driver", "host", "asked", "told"),
    [
        (used(0), HELD, ["gpus"], GpuMemory()),
        (
            used(71),
            HELD,
            ["gpus", "host"],
            GpuMemory({53: "71.0 GiB on GPU 3"}, {4343: "71.0 GiB on GPU 3"}, ("71.0 GiB on GPU 3",)),
        ),
        (
            used(71),
            LinkError("refused", ""),
            ["gpus", "host"],
            GpuMemory(in_use=("71.0 GiB on GPU 3",), problem="refused"),
        ),
        (GpuSnapshot(0.0, (), problem="no library"), HELD, ["gpus"], GpuMemory(problem="no library")),
        (LinkError("the line is dead", ""), HELD, ["gpus"], GpuMemory(problem="the line is dead")),
        (ZeroDivisionError("by us"), HELD, ["gpus"], GpuMemory(problem="ZeroDivisionError: by us")),
        (
            used(71),
            ZeroDivisionError("by us"),
            ["gpus", "host"],
            GpuMemory(in_use=("71.0 GiB on GPU 3",), problem="ZeroDivisionError: by us"),
        ),
    ],
)
def test_what_is_told(overs: list[Here], driver: Any, host: Any, asked: list[str], told: GpuMemory) -> None:
    here = Here(driver, host)
    overs.append(here)
    assert ask(here, PROFILE) == told
    assert here.asked == asked


@pytest.mark.parametrize(("driver", "host"), [(HANG, HELD), (used(71), HANG)])
def test_a_driver_that_hangs_delays_no_recovery(
    overs: list[Here], monkeypatch: pytest.MonkeyPatch, driver: Any, host: Any
) -> None:
    monkeypatch.setattr(recovery_gpus, "PATIENCE", 0.2)
    overs.append(Here(driver, host))
    told = ask(overs[0], PROFILE)
    assert not told.inside
    assert "no answer in" in told.problem
