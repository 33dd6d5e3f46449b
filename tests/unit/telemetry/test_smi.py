"""nvidia-smi, where Python has no pynvml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.telemetry import gpus, nvml, smi
from remote.telemetry.nvml import NoLibrary
from tests.nvml import Driver
from tests.unit.telemetry.conftest import StartAgent

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
LOST = "Unable to determine the device handle for GPU0000:C1:00.0: Unknown Error"
H200 = "NVIDIA H200, GPU-0a, 1024, 143771, 3, 76.51, 30"


@pytest.fixture
def no_pynvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    def absent(*, keep: bool) -> None:
        raise NoLibrary("/usr/bin/python3 has no pynvml")

    monkeypatch.setattr(nvml, "look", absent)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, script: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_it_stands_in_for_pynvml(no_pynvml: Path) -> None:
    put(no_pynvml, f"echo '0, {H200}'\necho '1, NVIDIA GB10, GPU-1b, [N/A], [N/A], 0, [N/A], 41'")
    seen = gpus.read()
    assert seen.note == "By nvidia-smi, because /usr/bin/python3 has no pynvml."
    first, second = seen.gpus
    assert (first.name, first.memory_used, first.memory_total) == ("NVIDIA H200", 1 << 30, 143771 << 20)
    assert (first.utilization, first.power, first.temperature, first.processes) == (3, 76.51, 30, None)
    assert (first.uuid, first.absent) == ("GPU-0a", ())
    assert (second.memory_used, second.memory_total, second.power) == (None, None, None)
    assert second.absent == ("memory.used: [N/A]", "memory.total: [N/A]", "power.draw: [N/A]")


def test_the_agent_asks_it_when_its_python_has_no_pynvml(start: StartAgent, driver: Driver, tmp_path: Path) -> None:
    put(tmp_path, f"echo '0, {H200}'")
    seen = start("-S", path=str(tmp_path)).gpus()
    assert [gpu.name for gpu in seen.gpus] == ["NVIDIA H200"]
    assert "has no pynvml" in seen.note


def test_g02_a_lost_gpu_is_a_line_that_is_no_row(no_pynvml: Path) -> None:
    put(no_pynvml, f"echo '0, {H200}'\necho '{LOST}'\necho '2, {H200}'")
    seen = gpus.read()
    assert [(gpu.index, gpu.problem) for gpu in seen.gpus] == [(0, ""), (1, LOST), (2, "")]
    assert "Xid" in seen.remedy


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (f"echo '{MISMATCH}'; exit 18", MISMATCH),
        (f"echo '{LOST}'; exit 15", LOST),
        ("echo boom >&2; exit 9", "boom"),
        ("exit 0", "lists no GPU"),
        ("printf '\\377\\000[/x]'", "\ufffd"),
        ("echo '1, 2, 3'", "1, 2, 3"),
    ],
)
def test_what_it_says_instead_is_the_problem(no_pynvml: Path, script: str, says: str) -> None:
    put(no_pynvml, script)
    seen = gpus.read()
    assert seen.gpus == ()
    assert says in seen.problem


def test_one_that_hangs_is_left(no_pynvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smi, "TIMEOUT", 0.3)
    put(no_pynvml, f"exec {os.path.realpath('/bin/sleep')} 20")
    assert "no answer" in gpus.read().problem
