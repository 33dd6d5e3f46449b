"""GPUs and shared memory."""

from __future__ import annotations

import dataclasses

from remote.wire.plan import Check, Outcome, Plan, Step, StepResult, Verdict
from remote.wire.telemetry import Gpu, GpuSnapshot, ShmOwner, ShmSnapshot
from tests.ui.scenes.basics import GIB, NOW


def gpus(count: int, *, lost: int | None = None, busy: bool = True) -> GpuSnapshot:
    rows = []
    for index in range(count):
        if index == lost:
            rows.append(Gpu(index, problem="Unable to determine the device handle: Unknown Error"))
            continue
        rows.append(
            Gpu(
                index,
                "NVIDIA RTX PRO 6000",
                int((83.1 + index * 0.2 if busy else 0.6) * GIB),
                int(95.6 * GIB),
                97 - index if busy else 0,
                412.0 - 3 * index if busy else 32.0,
                71 - index if index != 5 else 88,
                1,
            )
        )
    return GpuSnapshot(NOW, tuple(rows))


NO_GPU = GpuSnapshot(
    NOW,
    (),
    "There is no NVIDIA library here: /root/ml-env/bin/python3 has no pynvml (No module named 'pynvml'), and there "
    "is no nvidia-smi.",
    "If there are GPUs: install nvidia-ml-py into that Python (SGLang's own environments have it).",
)


SHM = ShmSnapshot(NOW, "/dev/shm", 504 * GIB, 252 * GIB, 252 * GIB, 480 * GIB, 212 * GIB)


LEFT_OVER = dataclasses.replace(
    SHM,
    owners=(ShmOwner("NCCL", int(33.6e9), 12), ShmOwner("SGLang", 184_000_000, 5), ShmOwner("Python", 48_000, 40)),
    stale=int(16.8e9),
    stale_files=8,
    filling=612e6,
    emptying=574e6,
)
"""Of a run whose consumer nearly keeps up, after a server that was killed."""


_DEAD = "nobody has it open; who could have made it has ended"
_LEFT = (
    ("nccl-0Q5xSw", f"NCCL, 8.4 GB, 3 h old; {_DEAD}"),
    ("nccl-8vTgLk", f"NCCL, 8.4 GB, 3 h old; {_DEAD}"),
    ("sgl_shm_mq_48213_3a075a05", "SGLang, 25.2 MB, 3 h old; nobody has it open; pid 48213, which made it, has ended"),
)


CLEAN = Plan(
    "shm.clean",
    "Remove 3 segments of dead processes from /dev/shm: 16.8 GB",
    needed=True,
    steps=tuple(Step(f"{name}: {words}", f"unlink /dev/shm/{name}") for name, words in _LEFT),
    losses=("What these files hold; nobody who could use them is alive.",),
    notes=(
        "52 segments in use, or maybe, stay: nccl-x1Yt3p, pid 51007 has it open: sglang::scheduler_TP0; …",
        "Dumps, and files of other names, are never touched.",
    ),
    basis={"at": 1_800_000_000, "device": 26, "segments": {}},
)


CLEAN_STEPS = tuple(StepResult(step.title, True, "removed", 0.0) for step in CLEAN.steps)


CLEANED = Outcome(
    "shm.clean",
    True,
    "3 segments removed.",
    (
        Check("segments", Verdict.OK, "all 3 are gone"),
        Check("room", Verdict.OK, "287.4 GB free in /dev/shm, 270.6 GB before"),
    ),
)
