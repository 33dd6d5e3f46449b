"""GPUs, and every way that NVML fails to tell of them: the real agent and pynvml, over a library of the tests' own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.telemetry import gpus
from remote.wire.telemetry import GpuSnapshot
from tests import nvml
from tests.nvml import GIB, Agent, Driver, usual
from tests.unit.telemetry.conftest import StartAgent


def test_gpus_are_read(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(8))
    seen = agent.gpus()
    assert (seen.problem, seen.note, seen.age, len(seen.gpus)) == ("", "", 0.0, 8)
    assert time.time() - seen.at < 60
    gpu = seen.gpus[3]
    assert (gpu.index, gpu.name, gpu.uuid, gpu.problem) == (3, "NVIDIA H200", "uuid-3", "")
    assert (gpu.memory_used, gpu.memory_total) == (90 * GIB, 141 * GIB), "as nvidia-smi says it: without the reserve"
    assert (gpu.utilization, gpu.power, gpu.temperature, gpu.processes) == (7, 312.3, 61, 1)
    assert gpu.mig is None


@pytest.mark.parametrize("count", [0, 1, 16])
def test_any_number_of_them(agent: Agent, driver: Driver, count: int) -> None:
    driver.says(*usual(count))
    seen = agent.gpus()
    assert [gpu.index for gpu in seen.gpus] == list(range(count))
    assert seen.problem == ("" if count else gpus.NO_GPU)


@pytest.mark.parametrize(
    ("code", "says", "remedy"),
    [
        (nvml.MISMATCH, "version mismatch", "reboot the host"),
        (nvml.DRIVER_NOT_LOADED, "Driver Not Loaded", "Load the NVIDIA driver"),
        (nvml.NO_PERMISSION, "Insufficient Permissions", "/dev/nvidia"),
        (nvml.UNKNOWN, "Unknown Error", "Xid"),
        (77, "error 77 of the stand-in", ""),
    ],
)
def test_g01_nvml_that_does_not_start_is_its_own_state(
    agent: Agent, driver: Driver, code: int, says: str, remedy: str
) -> None:
    driver.says(*usual(8), f"lib.nvmlInitWithFlags {code}")
    seen = agent.gpus()
    assert seen.gpus == ()
    assert says in seen.problem
    assert remedy in seen.remedy


def test_no_count_is_no_traceback(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(8), f"lib.nvmlDeviceGetCount_v2 {nvml.UNKNOWN}")
    assert agent.gpus().problem == "NVML: Unknown Error"


@pytest.mark.parametrize(
    ("function", "code", "says"),
    [
        ("nvmlDeviceGetHandleByIndex_v2", nvml.UNKNOWN, "no handle for it: Unknown Error"),
        ("nvmlDeviceGetHandleByIndex_v2", nvml.LOST, "no handle for it: GPU is lost"),
        ("nvmlDeviceGetMemoryInfo", nvml.LOST, "GPU is lost"),
        ("nvmlDeviceGetMemoryInfo", nvml.UNKNOWN, "Unknown Error"),
    ],
)
def test_g02_one_lost_gpu_leaves_seven(agent: Agent, driver: Driver, function: str, code: int, says: str) -> None:
    driver.says(*usual(8), f"5.{function} {code}")
    seen = agent.gpus()
    assert [(gpu.index, gpu.problem) for gpu in seen.gpus if gpu.problem] == [(5, says)]
    assert sum(gpu.memory_used == 90 * GIB for gpu in seen.gpus) == 7
    assert seen.problem == ""
    assert "Xid" in seen.remedy


def test_g03_unified_memory_is_none_with_the_reason(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(1), f"0.nvmlDeviceGetMemoryInfo {nvml.NOT_SUPPORTED}")
    (gpu,) = agent.gpus().gpus
    assert (gpu.memory_used, gpu.memory_total, gpu.problem) == (None, None, "")
    assert gpu.absent == ("memory: Not Supported",)
    assert gpu.utilization == 7


def test_g04_memory_in_use_by_nobody_is_not_idle(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(1, used=134 * GIB), "0.processes 0")
    assert agent.gpus().gpus[0].processes is None
    driver.says(*usual(1, used=5 << 20), "0.processes 0")
    assert agent.gpus().gpus[0].processes == 0


@pytest.mark.parametrize(
    "function",
    [
        *("Name", "UUID", "UtilizationRates", "PowerUsage", "Temperature"),
        *("ComputeRunningProcesses", "MigMode", "MemoryInfo"),
    ],
)
@pytest.mark.parametrize("code", [nvml.NOT_SUPPORTED, nvml.NO_PERMISSION, nvml.UNKNOWN, 77])
def test_what_one_call_does_not_give_leaves_the_others(agent: Agent, driver: Driver, function: str, code: int) -> None:
    driver.says(*usual(2), f"0.nvmlDeviceGet{function} {code}")
    first, second = agent.gpus().gpus
    assert second.absent == ()
    assert second.problem == ""
    assert first.temperature is not None or first.power is not None
    assert bool(first.absent) is (function != "MigMode")
    assert bool(first.problem) is (function == "MemoryInfo" and code in (nvml.UNKNOWN, 77))


def test_a_driver_too_old_for_some_functions(start: StartAgent, driver: Driver, tmp_path: Path) -> None:
    old = nvml.build(tmp_path / "old", "-DOLD")
    driver.says(*usual(1))
    (gpu,) = start(library=old).gpus().gpus
    assert gpu.memory_used == 90 * GIB + (512 << 20), "the first version counts the reserve"
    assert (gpu.utilization, gpu.processes, gpu.mig) == (7, None, None)
    assert gpu.absent == ("processes: Function Not Found",)


def test_a_name_may_hold_any_byte(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(1), r"0.name \x1b[31mH200\xff\x07", r"0.uuid \xfe")
    (gpu,) = agent.gpus().gpus
    assert gpu.name == "\x1b[31mH200\ufffd\x07", "faces make it harmless"
    assert gpu.uuid == "\ufffd"


def test_mig_devices_are_parts_of_their_gpu(agent: Agent, driver: Driver) -> None:
    driver.says(
        *usual(2, used=60 * GIB),
        *("0.mig 3", f"0.nvmlDeviceGetUtilizationRates {nvml.NOT_SUPPORTED}"),
        *(f"0/0.used {40 * GIB}", f"0/0.total {70 * GIB}", "0/0.name NVIDIA H200 MIG 3g.71gb"),
        *(f"0/1.used {20 * GIB}", "0/1.processes 0"),
        f"0/2.nvmlDeviceGetMigDeviceHandleByIndex {nvml.NO_PERMISSION}",
    )
    split, whole = agent.gpus().gpus
    assert whole.mig is None
    assert (split.memory_used, split.utilization, split.problem) == (60 * GIB, None, "")
    assert split.mig is not None
    first, second, third = split.mig
    assert (first.index, first.name, first.memory_used, first.memory_total) == (
        *(0, "NVIDIA H200 MIG 3g.71gb"),
        *(40 * GIB, 70 * GIB),
    )
    assert (first.processes, second.processes) == (1, None), "20 GiB in use, and nobody listed"
    assert (first.uuid, second.uuid) == ("uuid-0/0", "uuid-0/1")
    assert (third.index, third.problem) == (2, "Insufficient Permissions")


def test_a_parent_that_may_not_be_read_still_shows_its_mig_devices(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(1), "0.mig 1", f"0.nvmlDeviceGetMemoryInfo {nvml.NO_PERMISSION}", f"0/0.used {GIB}")
    (gpu,) = agent.gpus().gpus
    assert (gpu.memory_used, gpu.problem) == (None, "")
    assert gpu.absent == ("memory: Insufficient Permissions",)
    assert gpu.mig is not None
    assert [part.memory_used for part in gpu.mig] == [GIB]


def test_mig_that_may_not_be_looked_at_is_said(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(1), "0.mig 2", f"0.nvmlDeviceGetMaxMigDeviceCount {nvml.NO_PERMISSION}")
    (gpu,) = agent.gpus().gpus
    assert gpu.mig == ()
    assert gpu.absent == ("MIG devices: Insufficient Permissions",)


def test_split_and_empty(agent: Agent, driver: Driver) -> None:
    driver.says(*usual(1), "0.mig 0")
    assert agent.gpus().gpus[0].mig == ()


# While it is watched


def all_well(count: int) -> Callable[[GpuSnapshot], bool]:
    return lambda seen: len(seen.gpus) == count and not any(gpu.problem for gpu in seen.gpus)


def test_only_changes_are_sent_and_now_and_then_the_same(start: StartAgent, driver: Driver) -> None:
    driver.says(*usual(1))
    agent = start()
    agent.watch()
    first = agent.watched("the first look", lambda seen: seen.gpus)
    for _ in range(4):
        again = agent.watched("the same again", lambda seen: seen.gpus)
    assert again.at - first.at > 0.4, "looked every 50 ms, sent every 300 ms"
    driver.says(*usual(1, used=91 * GIB))
    changed = agent.watched("the change", lambda seen: seen.gpus[0].memory_used == 91 * GIB)
    assert changed.problem == ""


def test_a_gpu_falls_off_and_comes_back(start: StartAgent, driver: Driver) -> None:
    driver.says(*usual(8))
    agent = start()
    agent.watch()
    agent.watched("eight", all_well(8))
    for function, code in (("nvmlDeviceGetMemoryInfo", nvml.LOST), ("nvmlDeviceGetHandleByIndex_v2", nvml.UNKNOWN)):
        driver.says(*usual(8), f"5.{function} {code}")
        lost = agent.watched(function, lambda seen: seen.gpus[5].problem)
        assert [gpu.index for gpu in lost.gpus if gpu.problem] == [5]
        driver.says(*usual(8))
        agent.watched("eight again", all_well(8))


def test_a_gpu_that_is_listed_no_more_stays_on_the_screen(start: StartAgent, driver: Driver) -> None:
    """Started anew, NVML may leave it out and count the others through."""
    driver.says(*usual(8))
    agent = start()
    agent.watch()
    agent.watched("eight", all_well(8))
    driver.says(*usual(7), "5.uuid uuid-6", "6.uuid uuid-7")
    seen = agent.watched("seven and one", lambda seen: any(gpu.problem for gpu in seen.gpus))
    assert [gpu.uuid for gpu in seen.gpus if not gpu.problem] == [f"uuid-{i}" for i in (0, 1, 2, 3, 4, 6, 7)]
    (gone,) = (gpu for gpu in seen.gpus if gpu.problem)
    assert (gone.uuid, gone.problem) == ("uuid-5", "was GPU 5; the driver lists it no more")
    assert "Xid" in seen.remedy
    driver.says(*usual(8))
    agent.watched("eight again", all_well(8))


def test_the_driver_goes_and_comes_back_while_watched(start: StartAgent, driver: Driver) -> None:
    driver.says(*usual(2))
    agent = start()
    agent.watch()
    agent.watched("both", all_well(2))
    driver.says(*usual(2), f"*.nvmlDeviceGetMemoryInfo {nvml.UNINITIALIZED}", f"lib.nvmlInitWithFlags {nvml.MISMATCH}")
    gone = agent.watched("the driver is gone", lambda seen: not seen.gpus)
    assert "version mismatch" in gone.problem
    driver.says(*usual(2))
    agent.watched("both again", all_well(2))


def test_a_session_that_was_ended_is_started_anew_unseen(driver: Driver, library: Path) -> None:
    """As after a reload of the driver: every call of the old session fails."""
    driver.says(*usual(3))
    code = (
        "import pynvml; from remote.telemetry import nvml; nvml.look(keep=True); pynvml.nvmlShutdown();"
        "print([gpu.problem for gpu in nvml.look(keep=True).gpus])"
    )
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), "NVML_PLAN": str(driver.plan)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, cwd=nvml.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['', '', '']"


# A call that never returns


def test_a_call_that_hangs_keeps_nobody_else(start: StartAgent, driver: Driver) -> None:
    driver.says(*usual(8))
    agent = start(patience=0.6)
    agent.watch()
    agent.watched("eight", all_well(8))
    driver.says(*usual(8), "3.nvmlDeviceGetPowerUsage hang")
    late = agent.watched("no answer", lambda seen: seen.problem)
    assert (late.problem, len(late.gpus)) == (gpus.NO_ANSWER, 8)
    assert "Xid" in late.remedy
    older = agent.watched("older", lambda seen: seen.age > late.age)
    assert older.at == late.at, "of the last answer, not of the sending"
    for number in range(10, 22):  # more than the agent has workers
        agent.call(number, "gpus")
    assert agent.ask("ping")["now"]
    asked = agent.gpus()
    assert (asked.problem, asked.gpus) == (gpus.NO_ANSWER, ()), "who asks for the values now gets no old ones"
    assert agent.close() < 30


def test_a_container_that_has_no_thread_left_still_sees_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not told that the driver gives no answer, for ever."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert [gpus._in_turn(lambda: 5) for _ in range(2)] == [5, 5]
    assert gpus._in_turn(lambda: 6) == 6


def test_a_start_of_nvml_that_hangs(start: StartAgent, driver: Driver) -> None:
    driver.says("lib.nvmlInitWithFlags hang")
    seen = start(patience=0.6).gpus()
    assert (seen.problem, seen.gpus) == (gpus.NO_ANSWER, ())


# Without the library, or without pynvml


def test_g05_no_library_is_said_with_what_is_missing(start: StartAgent, tmp_path: Path) -> None:
    seen = start(library=None, path=str(tmp_path)).gpus()
    assert seen.problem.startswith(f"{gpus.NO_LIBRARY}: libnvidia-ml.so.1: cannot open shared object file")
    assert "no nvidia-smi" in seen.problem
    assert "same version" in seen.remedy


def test_a_library_of_another_architecture(start: StartAgent, library: Path, tmp_path: Path) -> None:
    other = nvml.of_other_architecture(library, tmp_path / "32")
    seen = start(library=other, path=str(tmp_path)).gpus()
    assert "wrong ELF class: ELFCLASS32" in seen.problem
    assert "architecture" in seen.remedy


def test_no_pynvml_is_said_with_the_python_that_lacks_it(start: StartAgent, driver: Driver, tmp_path: Path) -> None:
    driver.says(*usual(8))
    seen = start("-S", path=str(tmp_path)).gpus()
    assert "has no pynvml (No module named 'pynvml')" in seen.problem
    assert "nvidia-ml-py" in seen.remedy


def test_no_library_is_sent_once(start: StartAgent, tmp_path: Path) -> None:
    agent = start("-S", path=str(tmp_path))
    agent.watch()
    agent.watched("the first", lambda seen: seen.problem)
    with pytest.raises(AssertionError, match="in vain"):
        agent.watched("another", lambda seen: True, seconds=1.0)


def test_the_snapshot_has_no_pid(start: StartAgent, driver: Driver) -> None:
    """In a container NVML's pids are the host's: nobody must be able to signal by them."""
    driver.says(*usual(1), "0.processes 3")
    agent = start()
    assert agent.gpus().gpus[0].processes == 3
    assert "40000" not in str(agent.ask("gpus")), "the stand-in's pids begin at 4000000"
