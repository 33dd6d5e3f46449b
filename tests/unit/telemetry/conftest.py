from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Pynvml = Callable[[str], None]

PYNVML = """
NVML_TEMPERATURE_GPU = 0
class NVMLError(Exception): pass
class Memory: used, total = 90 << 30, 96 << 30
class Rates: gpu = 7
calls = []
def nvmlInit(): pass
def nvmlShutdown(): calls.append("shutdown")
def nvmlDeviceGetCount(): return 8
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return b"NVIDIA RTX PRO 6000"
def nvmlDeviceGetMemoryInfo(handle): return Memory
def nvmlDeviceGetUtilizationRates(handle): return Rates
def nvmlDeviceGetPowerUsage(handle): return 312345
def nvmlDeviceGetTemperature(handle, kind): return 61
def nvmlDeviceGetComputeRunningProcesses(handle): return [1, 2]
"""


@pytest.fixture
def pynvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pynvml]:
    """A pynvml on sys.path whose functions a test replaces by writing others."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(more: str) -> None:
        sys.modules.pop("pynvml", None)
        (tmp_path / "pynvml.py").write_text(PYNVML + more)

    yield write
    sys.modules.pop("pynvml", None)
