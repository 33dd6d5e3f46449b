"""GPUs and shared memory."""

from __future__ import annotations

from remote.wire.telemetry import Gpu, GpuSnapshot, ShmSnapshot
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


NO_GPU = GpuSnapshot(NOW, (), "no NVIDIA library in this container: GPUs can't be read", "")


SHM = ShmSnapshot(NOW, "/dev/shm", 504 * GIB, 252 * GIB, 252 * GIB, 480 * GIB, 212 * GIB)
