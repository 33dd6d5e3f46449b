"""Who holds the GPUs: the container sees memory used by nobody, its Proxmox host sees by whom."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.config.profile import Profile
from console.config.write import render
from console.operations import gpuholders
from remote.wire.plan import Check, Verdict
from remote.wire.telemetry import Gpu, GpuSnapshot
from tests.bed.container import Ground
from tests.bed.machines import Bed
from tests.bed.recovering import recovery

PLACE = "/usr/local/sbin"  # empty on this machine; covered in the host's own mounts alone
HOST_SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) printf '0, GPU-host, 0\\n5, GPU-three, 72704\\n' ;;
--query-compute-apps=*) cat {apps} ;;
esac
"""
IN_USE = GpuSnapshot(0.0, (Gpu(3, "NVIDIA H200", 71 << 30, 141 << 30, uuid="GPU-three"),))
CONTAINER_SMI = "#!/bin/sh\necho '3, NVIDIA H200, GPU-three, 72704, 143771, 0, 90.1, 40'\n"
WHILE_THEY_LIVE = """#!/bin/sh
pgrep -f '^sglang::' >/dev/null && used=72704 || used=0
echo "3, NVIDIA H200, GPU-three, $used, 143771, 0, 90.1, 40"
"""


class Gpus:
    """A GPU that the container has as its number 3, and the host as its number 5, with 71 GiB in use."""

    def __init__(self, bed: Bed, ground: Ground, folder: Path) -> None:
        self.ground = ground
        self.bed = bed
        self.folder = folder
        self.apps = folder / "apps"
        self.apps.write_text("")
        self.smi = folder / "nvidia-smi"
        self.smi.write_text(HOST_SMI.format(apps=self.apps))
        self.smi.chmod(0o755)
        assert bed.host("mount", "--bind", str(folder), PLACE).returncode == 0
        ground.sh(f"cat >{PLACE}/nvidia-smi; chmod 755 {PLACE}/nvidia-smi", CONTAINER_SMI)

    def held_by(self, *host_pids: int) -> None:
        self.apps.write_text("".join(f"GPU-three, {pid}, 72000\n" for pid in host_pids))

    def has_card(self, uuid: str, minor: int) -> None:
        """What the driver writes of a GPU below /proc."""
        text = f"GPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        made = "mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0 && cat >$0/0/information"
        assert self.bed.host("sh", "-c", made, "/proc/driver/nvidia/gpus", stdin=text).returncode == 0

    def remove(self) -> None:
        self.bed.host("umount", "/proc/driver")
        self.bed.host("umount", PLACE)
        self.ground.sh(f"rm -f {PLACE}/nvidia-smi /dev/nvidia3 /dev/nvidia-uvm")


@pytest.fixture
def gpus(bed: Bed, ground: Ground, tmp_path: Path) -> Iterator[Gpus]:
    made = Gpus(bed, ground, tmp_path)
    yield made
    made.remove()


@pytest.fixture
def _config(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "config" / "profiles"
    folder.mkdir(parents=True)
    (folder / "bed.toml").write_text(render(profile))
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(folder.parent))


def hsconsole(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console", "--profile", "bed", *words]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


@pytest.mark.usefixtures("_config")
def test_g04_who_holds_the_memory_is_told(gpus: Gpus, ground: Ground) -> None:
    ground.hold("spawned")
    rank = int(ground.sh("pgrep -f '^sglang::scheduler_TP0'"))
    stranger = ground.hold_on_host("plain")
    gpus.held_by(ground.on_host(rank), stranger)
    said = hsconsole("status").stdout
    assert "76.2 GB used of 151 GB, by processes that are not shown in the container" in said
    assert f"GPU 3: 71.0 GiB held by pid {ground.on_host(rank)} sglang::scheduler_TP0" in said
    assert f"(container {rank}) (70.3 GiB); a process outside of the container: pid {stranger} of uid 0" in said
    document = json.loads(hsconsole("status", "--json").stdout)
    (held,) = document["gpu_holders"]["held"]
    assert (held["index"], held["used"], len(held["by"])) == (3, 72704 << 20, 2)
    assert set(document["ages"]) == {"server", "gpus", "shm"}
    assert all(0 <= age < 60 for age in document["ages"].values())


def test_g04_a_recovery_tells_what_each_orphan_holds(gpus: Gpus, ground: Ground, profile: Profile) -> None:
    """And afterwards that the memory is free, which the driver says once they are gone."""
    ground.hold("spawned")
    ground.sh(f"cat >{PLACE}/nvidia-smi", WHILE_THEY_LIVE)
    rank = int(ground.sh("pgrep -f '^sglang::scheduler_TP0'"))
    gpus.held_by(ground.on_host(rank))
    done = recovery(profile)
    (line,) = [step.title for step in done.plan.steps if "scheduler_TP0" in step.title]
    assert line.startswith(f"pid {rank} of root")
    assert "; holds 70.3 GiB on GPU 3 – ours" in line
    assert done.planned.count("GiB on GPU") == 1
    assert done.ok, done.truth
    assert Check("gpu memory", Verdict.OK, "none in use") in (done.outcome.checks if done.outcome else ())


@pytest.mark.usefixtures("_config")
def test_g04_the_preflight_calls_nothing_free_that_the_host_sees_held(gpus: Gpus, ground: Ground) -> None:
    stranger = ground.hold_on_host("plain")
    gpus.held_by(stranger)
    done = hsconsole("server", "preflight", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["gpus"]["verdict"] == "bad"
    assert "GPU 3 (76.2 GB, no process of it is shown here)" in checks["gpus"]["found"]
    assert f"a process outside of the container: pid {stranger}" in checks["gpu holders"]["found"]
    assert ground.exists_on_host(stranger), "nothing is ended by what was seen of GPUs"


def test_without_nvidia_smi_on_the_host_it_is_who_computes_with_the_device_open(
    gpus: Gpus, ground: Ground, profile: Profile
) -> None:
    gpus.smi.unlink()
    gpus.has_card("GPU-three", minor=3)
    ground.sh(
        "touch /dev/nvidia3 /dev/nvidia-uvm; "
        "BED=1 setsid -f sleep 600 3</dev/nvidia3 4</dev/nvidia-uvm </dev/null >/dev/null 2>&1; "
        "BED=1 setsid -f sleep 601 3</dev/nvidia3 </dev/null >/dev/null 2>&1"
    )
    computing, watching = (int(ground.sh(f"pgrep -f '^sleep {number}'")) for number in (600, 601))
    found = gpuholders.ask(profile, IN_USE)
    ground.sh(f"kill {computing} {watching}")
    assert found is not None
    assert found.problem == "the host has no nvidia-smi"
    (held,) = found.held
    assert held.by == (f"pid {held.by[0].split()[1]} sleep 600 (container {computing}), which has it open",)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'Failed to initialize NVML: Unknown Error'; exit 9", "says: Failed to initialize NVML: Unknown Error"),
        ("exec sleep 30", "says: no answer in 5 s"),
    ],
)
def test_an_nvidia_smi_of_the_host_that_fails_or_hangs(gpus: Gpus, profile: Profile, script: str, says: str) -> None:
    gpus.smi.write_text(f"#!/bin/sh\n{script}\n")
    found = gpuholders.ask(profile, IN_USE)
    assert found is not None
    assert says in found.problem
    assert found.held[0].by == ("somebody unknown: the host does not list this GPU",)
