"""The proof of a stop: GPU memory counts as back only where it was seen to be."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import pytest

from remote import processes
from remote.server import proof
from remote.server.find import Found, Member
from remote.server.record import Record
from remote.telemetry import gpus
from remote.wire.plan import Verdict
from remote.wire.telemetry import Gpu, GpuSnapshot

GIB = 1 << 30
LOW = {"0": 600 << 20, "1": 600 << 20}


def found(baseline: dict[str, int] | None) -> Found:
    """A server that hsconsole started, with what its start noted; or one started by hand."""
    process = processes.read(os.getpid())
    assert process is not None
    member = Member(process, baseline is not None, "stand-in")
    start = Record(8000, process.pid, process.start_ticks, "", (), (), "", 0.0, "x", gpus=baseline or {})
    return Found(8000, process, (member,), start if baseline else None)


def two(*used: int | None, **more: Any) -> GpuSnapshot:
    """A GPU for each figure; more: what the last of them has besides."""
    seen = [Gpu(i, "H200", memory_used=bytes_used, processes=0) for i, bytes_used in enumerate(used)]
    return GpuSnapshot(0.0, (*seen[:-1], dataclasses.replace(seen[-1], **more)))


@pytest.mark.parametrize(
    ("seen", "baseline", "verdict", "says"),
    [
        (two(GIB, GIB), LOW, Verdict.OK, "as before the start"),
        (two(0, 0), None, Verdict.OK, "none in use"),
        (two(GIB, 134 * GIB), LOW, Verdict.BAD, "GPU 1: 143 GB"),
        (two(0, 134 * GIB, processes=None), None, Verdict.WARN, "in use: GPU 1: 144 GB"),
        (two(GIB, None, absent=("memory: Not Supported",)), LOW, Verdict.UNKNOWN, "GPU 1: memory: Not Supported"),
        (two(GIB, None, problem="GPU is lost"), LOW, Verdict.UNKNOWN, "GPU 1: GPU is lost"),
        (two(GIB), LOW, Verdict.UNKNOWN, "GPU 1: the driver lists it no more"),
        (GpuSnapshot(0.0, problem=gpus.NO_ANSWER), LOW, Verdict.UNKNOWN, gpus.NO_ANSWER),
        (GpuSnapshot(0.0, problem=gpus.NO_LIBRARY), None, Verdict.UNKNOWN, gpus.NO_LIBRARY),
    ],
)
def test_memory_is_back_only_where_it_was_seen(
    monkeypatch: pytest.MonkeyPatch,
    seen: GpuSnapshot,
    baseline: dict[str, int] | None,
    verdict: Verdict,
    says: str,
) -> None:
    monkeypatch.setattr(proof, "GPU_WAIT", 0.0)
    monkeypatch.setattr(gpus, "read", lambda: seen)
    check = proof.gpus_back(found(baseline))
    assert check.verdict is verdict
    assert says in check.found


def test_a_driver_that_falls_silent_while_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([two(0, 134 * GIB), GpuSnapshot(0.0, problem=gpus.NO_ANSWER)])
    monkeypatch.setattr(gpus, "read", lambda: next(looks))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert proof.gpus_back(found(LOW)).verdict is Verdict.UNKNOWN
