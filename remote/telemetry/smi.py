"""One look at the GPUs by nvidia-smi, for a Python without pynvml."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from typing import Optional

from remote.wire.telemetry import Gpu, GpuSnapshot

MIB = 1024 * 1024
TIMEOUT = 5.0  # seconds
FIELDS = ("index", "name", "uuid", "memory.used", "memory.total", "utilization.gpu", "power.draw", "temperature.gpu")


def look() -> Optional[GpuSnapshot]:
    """All GPUs now, without their processes; None where there is no nvidia-smi."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return None
    command = [smi, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return GpuSnapshot(time.time(), problem=f"nvidia-smi gave no answer: {error}")
    text = done.stdout.decode("utf-8", "replace")
    found = _gpus(text)
    if not found:
        said = (text + done.stderr.decode("utf-8", "replace")).strip().splitlines()
        return GpuSnapshot(time.time(), problem=said[0][:200] if said else "nvidia-smi lists no GPU.")
    return GpuSnapshot(time.time(), found)


def _gpus(text: str) -> tuple[Gpu, ...]:
    """The rows, and for each line that is none but tells of a GPU, that GPU as lost."""
    lines = [line.strip() for line in text.splitlines()]
    rows = [gpu for gpu in map(_row, lines) if gpu is not None]
    if not rows:
        return ()
    taken = {gpu.index for gpu in rows}
    free = (index for index in itertools.count() if index not in taken)
    odd = [line for line in lines if _row(line) is None and "gpu" in line.lower()]
    lost = [Gpu(index, problem=line[:200]) for index, line in zip(free, odd)]
    return tuple(sorted(rows + lost, key=lambda gpu: gpu.index))


def _row(line: str) -> Optional[Gpu]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < len(FIELDS) or not cells[0].isdecimal():
        return None
    numbers = FIELDS[3:]
    *name, uuid = cells[1 : -len(numbers)]
    given = dict(zip(numbers, map(_number, cells[-len(numbers) :])))
    used, total = given["memory.used"], given["memory.total"]
    utilization, temperature = given["utilization.gpu"], given["temperature.gpu"]
    label = ", ".join(name)
    return Gpu(
        index=int(cells[0]),
        name=label,
        memory_used=None if used is None else int(used * MIB),
        memory_total=None if total is None else int(total * MIB),
        utilization=None if utilization is None else int(utilization),
        power=given["power.draw"],
        temperature=None if temperature is None else int(temperature),
        uuid=uuid,
        problem=f"nvidia-smi says {label}" if "error" in label.lower() else "",
        absent=tuple(f"{what}: {said}" for what, said in zip(numbers, cells[-len(numbers) :]) if given[what] is None),
    )


def _number(cell: str) -> Optional[float]:
    try:
        return float(cell)
    except ValueError:  # [N/A], [Not Supported], [Unknown Error]
        return None
