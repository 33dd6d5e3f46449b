"""One look at the GPUs by NVML, through pynvml. CUDA is never initialised: that alone would take GPU memory."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable, Optional

from remote.wire.telemetry import Gpu, GpuSnapshot, MigDevice

MIB = 1024 * 1024
UNATTRIBUTED = 1024 * MIB  # the driver alone takes less: with more in use, an empty list of processes isn't the truth
LIBRARY = "libnvidia-ml.so.1"
MIG_ENABLED = 1

# Codes of NVML's. These say that this GPU, driver or user doesn't get that value; any other, that something is wrong.
UNINITIALIZED, NOT_FOUND, LIBRARY_NOT_FOUND = 1, 6, 12
NOT_GIVEN = (2, 3, 4, NOT_FOUND, 13, 21, 25)  # argument, support, permission, function, data, version


class NoLibrary(Exception):
    """NVML can't be asked at all; says what is missing."""


_started = False  # touched by one look at a time


def look(*, keep: bool) -> GpuSnapshot:
    """All GPUs now. keep: leave NVML started for the next look (a start takes 18 ms on an H200), unless it had trouble.

    What NVML knows of its GPUs is as of its start: after trouble it is started anew. Raises NoLibrary, and NVML's own
    errors when it can't be started.
    """
    nvml = _pynvml()
    kept = _started
    try:
        _start(nvml)
        seen = _all(nvml)
    except Exception as error:
        close()
        if not (kept and code(error) == UNINITIALIZED):
            raise
        _start(nvml)  # the driver was loaded anew since
        seen = _all(nvml)
    if not keep or any(gpu.problem for gpu in seen.gpus):
        close()
    return seen


def close() -> None:
    global _started
    if _started:
        _started = False
        with contextlib.suppress(Exception):
            _pynvml().nvmlShutdown()


def code(error: Exception) -> Optional[int]:
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def _pynvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise NoLibrary(f"{sys.executable} has no pynvml ({error})") from None
    except Exception as error:
        raise NoLibrary(f"the pynvml of {sys.executable} is broken ({type(error).__name__}: {error})") from None


def _start(nvml: Any) -> None:
    global _started
    if _started:
        return
    try:
        nvml.nvmlInit()
    except Exception as error:
        if code(error) == LIBRARY_NOT_FOUND:
            raise NoLibrary(_why_not_loaded()) from None
        raise
    _started = True


def _why_not_loaded() -> str:
    """In the linker's words, which pynvml leaves out: not there, or of a wrong architecture."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        return str(error)
    return f"{LIBRARY} could not be loaded"


def _all(nvml: Any) -> GpuSnapshot:
    found = tuple(_gpu(nvml, index) for index in range(int(nvml.nvmlDeviceGetCount())))
    return GpuSnapshot(time.time(), found)


def _gpu(nvml: Any, index: int) -> Gpu:
    try:
        device = _Device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    except Exception as error:
        if code(error) == UNINITIALIZED:
            raise
        return Gpu(index, problem=f"no handle for it: {error}")
    memory = device.memory()
    trouble = device.trouble
    milliwatts = device.value("power", lambda: nvml.nvmlDeviceGetPowerUsage(device.handle))
    sensor = getattr(nvml, "NVML_TEMPERATURE_GPU", 0)
    return Gpu(
        index=index,
        name=device.text("name", nvml.nvmlDeviceGetName),
        memory_used=int(memory.used) if memory else None,
        memory_total=int(memory.total) if memory else None,
        utilization=device.value("utilization", lambda: int(nvml.nvmlDeviceGetUtilizationRates(device.handle).gpu)),
        power=None if milliwatts is None else round(milliwatts / 1000, 1),
        temperature=device.value("temperature", lambda: int(nvml.nvmlDeviceGetTemperature(device.handle, sensor))),
        processes=device.processes(memory),
        uuid=device.text("uuid", nvml.nvmlDeviceGetUUID),
        mig=device.mig(),
        problem=trouble,
        absent=tuple(device.absent),
    )


class _Device:
    """One GPU, or one MIG device of it. absent: what it doesn't give, and why. trouble: a real error."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle
        self.absent: list[str] = []
        self.trouble = ""

    def value(self, what: str, ask: Callable[[], Any]) -> Any:
        """What NVML answers, or None, with the reason noted."""
        try:
            return ask()
        except Exception as error:
            number = code(error)
            if number == UNINITIALIZED:
                raise
            if number is not None and number not in NOT_GIVEN:
                self.trouble = self.trouble or str(error)
            self.absent.append(f"{what}: {error}")
            return None

    def text(self, what: str, ask: Callable[[Any], Any]) -> str:
        def read() -> str:
            try:
                said = ask(self.handle)
            except UnicodeDecodeError as error:  # pynvml decodes by itself
                said = error.object
            return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)

        return self.value(what, read) or ""

    def memory(self) -> Any:
        """In use as nvidia-smi says it: version 1 of the call counts what the driver reserves (half a GB, H200)."""
        version = getattr(self.nvml, "nvmlMemory_v2", None)
        if version:
            with contextlib.suppress(Exception):
                return self.nvml.nvmlDeviceGetMemoryInfo(self.handle, version=version)
        return self.value("memory", lambda: self.nvml.nvmlDeviceGetMemoryInfo(self.handle))

    def processes(self, memory: Any) -> Optional[int]:
        """How many use it; None where that isn't shown: many containers see memory used by nobody.

        Only their number: inside of a container these are the host's pids.
        """
        running = self.value("processes", self._running)
        if running is None or (not running and memory and memory.used > UNATTRIBUTED):
            return None
        return len(running)

    def _running(self) -> Any:
        try:
            return self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        except Exception as error:
            if code(error) is not None:
                raise
            return self.nvml.nvmlDeviceGetComputeRunningProcesses_v2(self.handle)  # a driver older than this pynvml

    def mig(self) -> Optional[tuple[MigDevice, ...]]:
        """Its MIG devices; None when it isn't split, or can't be."""
        try:
            enabled = self.nvml.nvmlDeviceGetMigMode(self.handle)[0] == MIG_ENABLED
        except Exception:
            return None
        return tuple(self._mig_devices()) if enabled else None

    def _mig_devices(self) -> Iterator[MigDevice]:
        most = self.value("MIG devices", lambda: int(self.nvml.nvmlDeviceGetMaxMigDeviceCount(self.handle)))
        for index in range(most or 0):
            try:
                handle = self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle, index)
            except Exception as error:
                if code(error) != NOT_FOUND:
                    yield MigDevice(index, problem=str(error))
                continue
            yield _Device(self.nvml, handle)._as_mig(index)

    def _as_mig(self, index: int) -> MigDevice:
        memory = self.memory()
        return MigDevice(
            index=index,
            name=self.text("name", self.nvml.nvmlDeviceGetName),
            memory_used=int(memory.used) if memory else None,
            memory_total=int(memory.total) if memory else None,
            processes=self.processes(memory),
            uuid=self.text("uuid", self.nvml.nvmlDeviceGetUUID),
            problem=self.absent[0] if memory is None else "",
        )
