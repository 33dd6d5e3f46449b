"""GPUs, and every way that NVML fails to tell of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from remote.telemetry import gpus
from remote.wire.telemetry import GpuSnapshot
from tests.unit.telemetry.conftest import Pynvml

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
LOST = "Unable to determine the device handle for GPU0000:C1:00.0: Unknown Error"
NOT_SUPPORTED = "raise NVMLError('Not Supported')"


def test_gpus_are_read(pynvml: Pynvml) -> None:
    pynvml("")
    seen = gpus.read()
    assert (seen.problem, len(seen.gpus)) == ("", 8)
    gpu = seen.gpus[3]
    assert (gpu.index, gpu.name, gpu.problem) == (3, "NVIDIA RTX PRO 6000", "")
    assert (gpu.memory_used, gpu.memory_total) == (90 << 30, 96 << 30)
    assert (gpu.utilization, gpu.power, gpu.temperature, gpu.processes) == (7, 312.3, 61, 2)


def test_memory_is_what_nvidia_smi_says(pynvml: Pynvml) -> None:
    pynvml(
        "nvmlMemory_v2 = 2\nclass Without: used, total = 89 << 30, 96 << 30\n"
        "def nvmlDeviceGetMemoryInfo(handle, version=1): return Without if version == 2 else Memory"
    )
    assert gpus.read().gpus[0].memory_used == 89 << 30


def test_g01_a_driver_mismatch_is_its_own_state_with_a_remedy(pynvml: Pynvml) -> None:
    pynvml(f"def nvmlInit(): raise NVMLError({MISMATCH!r})")
    seen = gpus.read()
    assert (seen.gpus, seen.problem) == ((), MISMATCH)
    assert "reboot" in seen.remedy


def test_g02_one_lost_gpu_leaves_seven(pynvml: Pynvml) -> None:
    pynvml(f"def nvmlDeviceGetHandleByIndex(index):\n    if index == 5: raise NVMLError({LOST!r})\n    return index")
    seen = gpus.read()
    assert [gpu.index for gpu in seen.gpus if gpu.problem] == [5]
    assert seen.gpus[5].problem == LOST
    assert seen.problem == ""


def test_g03_unified_memory_is_none_not_zero(pynvml: Pynvml) -> None:
    pynvml(f"def nvmlDeviceGetMemoryInfo(handle): {NOT_SUPPORTED}")
    gpu = gpus.read().gpus[0]
    assert (gpu.memory_used, gpu.memory_total) == (None, None)
    assert gpu.utilization == 7


def test_g04_memory_in_use_by_nobody_is_not_idle(pynvml: Pynvml) -> None:
    pynvml("def nvmlDeviceGetComputeRunningProcesses(handle): return []")
    assert gpus.read().gpus[0].processes is None
    pynvml("def nvmlDeviceGetComputeRunningProcesses(handle): return []\nclass Memory: used, total = 5 << 20, 96 << 30")
    assert gpus.read().gpus[0].processes == 0


def test_nvml_is_closed_and_cuda_never_asked(pynvml: Pynvml) -> None:
    pynvml("")
    gpus.read()
    import pynvml as stand_in  # type: ignore[import-not-found,unused-ignore]

    assert stand_in.calls == ["shutdown"]


@pytest.fixture
def no_pynvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(gpus, "_pynvml", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def smi(folder: Path, script: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_g05_no_library_is_said_once(no_pynvml: Path) -> None:
    events: list[GpuSnapshot] = []
    cancelled = threading.Event()
    watcher = threading.Thread(target=gpus.watch, args=(events.append, cancelled))
    watcher.start()
    cancelled.wait(1.5)
    cancelled.set()
    watcher.join(5)
    assert [event.problem for event in events] == [gpus.NO_LIBRARY]


def test_nvidia_smi_stands_in_for_pynvml(no_pynvml: Path) -> None:
    smi(
        no_pynvml,
        "echo '0, NVIDIA H200, 1024, 143771, 3, 76.51, 30'\necho '1, NVIDIA GB10, [N/A], [N/A], 0, [N/A], 41'",
    )
    first, second = gpus.read().gpus
    assert (first.name, first.memory_used, first.memory_total) == ("NVIDIA H200", 1 << 30, 143771 << 20)
    assert (first.utilization, first.power, first.temperature, first.processes) == (3, 76.51, 30, None)
    assert (second.memory_used, second.memory_total, second.power) == (None, None, None)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (f"echo '{MISMATCH}'; exit 18", MISMATCH),
        ("echo boom >&2; exit 9", "boom"),
        ("exit 0", "lists no GPU"),
        ("printf '\\377\\000[/x]'", "\ufffd"),
    ],
)
def test_what_nvidia_smi_says_instead_is_the_problem(no_pynvml: Path, script: str, says: str) -> None:
    smi(no_pynvml, script)
    seen = gpus.read()
    assert seen.gpus == ()
    assert says in seen.problem


def test_an_nvidia_smi_that_hangs_is_left(no_pynvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SMI_TIMEOUT", 0.3)
    smi(no_pynvml, f"exec {os.path.realpath('/bin/sleep')} 20")
    assert "no answer" in gpus.read().problem


def test_only_changes_are_sent(pynvml: Pynvml) -> None:
    pynvml("")
    events: list[GpuSnapshot] = []
    cancelled = threading.Event()
    watcher = threading.Thread(target=gpus.watch, args=(events.append, cancelled))
    watcher.start()
    cancelled.wait(2.4)
    cancelled.set()
    watcher.join(5)
    assert len(events) == 1
