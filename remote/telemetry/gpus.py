"""GPUs by NVML through pynvml, else by nvidia-smi. CUDA is never initialised: that alone would take GPU memory."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, Optional

from remote.telemetry import watch as watching
from remote.wire.telemetry import Gpu, GpuSnapshot

MIB = 1024 * 1024
UNATTRIBUTED = 1024 * MIB  # the driver alone takes less: with more in use, an empty list of processes isn't the truth
SMI_TIMEOUT = 5.0  # seconds
SMI_FIELDS = ("index", "name", "memory.used", "memory.total", "utilization.gpu", "power.draw", "temperature.gpu")

NO_LIBRARY = "There is no NVIDIA library here (no pynvml in this Python, no nvidia-smi)."
# Part of NVML's own message: what to do about it.
REMEDIES = (
    (
        "version mismatch",
        "The driver was updated under a running kernel module: reboot the host, or reload the module.",
    ),
    ("Driver Not Loaded", "Load the NVIDIA driver on the host, and pass its devices into the container."),
    ("Unknown Error", "Look in the host's dmesg for Xid errors; a lost GPU comes back with a reset or a reboot."),
    ("Insufficient Permissions", "Allow the container the devices /dev/nvidia*."),
)


def read() -> GpuSnapshot:
    """All GPUs now. What can't be read is said: of one GPU in its `problem`, of all in the snapshot's."""
    nvml = _pynvml()
    if nvml is None:
        return _by_command()
    try:
        nvml.nvmlInit()
    except Exception as error:
        return _none(f"{error}")
    try:
        count = int(nvml.nvmlDeviceGetCount())
        found = tuple(_gpu(nvml, index) for index in range(count))
        return GpuSnapshot(time.time(), found) if found else _none("The driver lists no GPU.")
    except Exception as error:
        return _none(f"{error}")
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def watch(emit: Callable[[Any], None], cancelled: threading.Event) -> None:
    """Send the GPUs whenever a value changes, looking once a second; where there is no library, once a minute."""
    with _kept_open():
        watching.changes(
            read,
            emit,
            cancelled,
            pause=lambda seen: 60.0 if seen.problem == NO_LIBRARY else 1.0,
            essence=_essence,
        )


def _essence(seen: GpuSnapshot) -> Any:
    """What counts as a change: not the clock, and not a watt more or less, which an idle GPU always has."""
    gpus = [dataclasses.replace(gpu, power=None if gpu.power is None else gpu.power // 5) for gpu in seen.gpus]
    return gpus, seen.problem


@contextlib.contextmanager
def _kept_open() -> Iterator[None]:
    """NVML counts its users: with one that stays, each look need not start it anew (18 ms on an H200)."""
    nvml = _pynvml()
    with contextlib.suppress(Exception):
        nvml.nvmlInit()  # type: ignore[union-attr] # None fails like a library that doesn't start: `read` says so
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()  # type: ignore[union-attr]


def _pynvml() -> Optional[Any]:
    try:
        return importlib.import_module("pynvml")
    except Exception:  # absent, or broken at import: nvidia-smi may still do
        return None


def _gpu(nvml: Any, index: int) -> Gpu:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        return Gpu(index, problem=str(error))
    memory = _memory(nvml, handle)
    milliwatts = _value(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    name = _value(lambda: nvml.nvmlDeviceGetName(handle)) or ""
    running = _value(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    return Gpu(
        index=index,
        name=name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name),
        memory_used=int(memory.used) if memory else None,
        memory_total=int(memory.total) if memory else None,
        utilization=_value(lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        power=None if milliwatts is None else round(milliwatts / 1000, 1),
        temperature=_value(lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
        processes=_listed(running, memory),
    )


def _memory(nvml: Any, handle: Any) -> Any:
    """In use as nvidia-smi says it: version 1 of the call counts what the driver reserves (half a GB on an H200)."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    newer = _value(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=version)) if version else None
    return newer or _value(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))


def _listed(running: Optional[list[Any]], memory: Any) -> Optional[int]:
    """How many processes use the GPU; None where that isn't shown: many containers see memory used by nobody."""
    if running is None or (not running and memory and memory.used > UNATTRIBUTED):
        return None
    return len(running)


def _value(ask: Callable[[], Any]) -> Any:
    """What NVML answers, or None where this GPU doesn't give it (`Not Supported`)."""
    try:
        return ask()
    except Exception:
        return None


def _by_command() -> GpuSnapshot:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return _none(NO_LIBRARY)
    command = [smi, f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SMI_TIMEOUT, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _none(f"nvidia-smi gave no answer: {error}")
    text = done.stdout.decode("utf-8", "replace")
    found = tuple(gpu for gpu in map(_row, text.splitlines()) if gpu is not None)
    if not found:
        said = (text + done.stderr.decode("utf-8", "replace")).strip().splitlines()
        return _none(said[0][:200] if said else "nvidia-smi lists no GPU.")
    return GpuSnapshot(time.time(), found)


def _row(line: str) -> Optional[Gpu]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(SMI_FIELDS) or not cells[0].isdigit():
        return None
    used, total = _number(cells[2]), _number(cells[3])
    utilization, power, temperature = map(_number, cells[4:])
    return Gpu(
        index=int(cells[0]),
        name=cells[1],
        memory_used=None if used is None else int(used * MIB),
        memory_total=None if total is None else int(total * MIB),
        utilization=None if utilization is None else int(utilization),
        power=power,
        temperature=None if temperature is None else int(temperature),
        problem=f"nvidia-smi says {cells[1]}" if "error" in cells[1].lower() else "",
    )


def _number(cell: str) -> Optional[float]:
    try:
        return float(cell)
    except ValueError:  # [N/A], [Not Supported], [Unknown Error]
        return None


def _none(problem: str) -> GpuSnapshot:
    remedy = next((remedy for part, remedy in REMEDIES if part.lower() in problem.lower()), "")
    return GpuSnapshot(time.time(), problem=problem, remedy=remedy)
