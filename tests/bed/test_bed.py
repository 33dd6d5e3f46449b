"""The bed is what it is said to be, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from console.config.profile import Profile
from tests.bed.container import Ground
from tests.bed.machines import Bed, cgroups
from tests.living import lives


def ssh(bed: Bed, host: str, command: str) -> subprocess.CompletedProcess[str]:
    words = ["ssh", "-F", str(bed.ssh_config), host, command]
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False)


def test_the_container_is_a_machine_of_its_own(bed: Bed, profile: Profile) -> None:
    assert ssh(bed, "container", "systemctl is-system-running --wait").stdout.strip() == "running"
    assert ssh(bed, "container", "df -k --output=size /dev/shm | tail -1").stdout.strip() == "65536"
    assert ssh(bed, "container", "cat /proc/1/comm").stdout.strip() == "systemd"


def test_the_host_reaches_it_by_pct(bed: Bed, profile: Profile) -> None:
    assert "129        running" in ssh(bed, "proxmox", "pct list").stdout
    assert ssh(bed, "proxmox", "pct exec 129 -- hostname").stdout.strip() == "sglang"
    assert ssh(bed, "proxmox", "pct exec 129 -- sh -c 'exit 7'").returncode == 7


def test_pct_reads_options_as_the_real_one(bed: Bed, profile: Profile) -> None:
    for command, words in (
        ("pct exec 129 fuser -k 8000/tcp", "400 unable to parse boolean option"),
        ("pct exec 129 ls -la", "Unknown option: la"),
        ("pct exec --keep-env 129 -- env", "400 unable to parse boolean option"),
        ("pct exec 129", "missing command"),
        ("pct exec 130 -- id", "Configuration file 'nodes/pve/lxc/130.conf' does not exist"),
        ("pct start 129", "CT 129 already running"),
    ):
        done = ssh(bed, "proxmox", command)
        assert done.returncode != 0, command
        assert words in done.stderr, command


def test_holders_hold_and_are_cleaned_up(ground: Ground) -> None:
    pid = ground.hold("plain")
    assert ground.exists(pid)
    ground.clean()
    assert not ground.is_held()


def test_a_bed_leaves_nothing_behind() -> None:
    own = Path("/proc/self/ns/net").readlink()
    bed = Bed().up()
    other = Bed().up()  # two at once do not collide
    pids = set(bed_processes(bed))
    assert bed.inside("hostname").stdout.strip() == other.inside("hostname").stdout.strip() == "sglang"
    assert len(pids) > 5
    other.down()
    assert bed.inside("hostname").stdout.strip() == "sglang"
    bed.down()
    assert not [pid for pid in pids if lives(pid)]
    assert not bed.folder.exists()
    assert not cgroups(bed.name)
    mounts = Path("/proc/self/mountinfo").read_text()  # others may mount and unmount meanwhile
    assert str(bed.folder) not in mounts
    assert bed.name not in mounts
    assert Path("/proc/self/ns/net").readlink() == own


def bed_processes(bed: Bed) -> list[int]:
    """Everything in the host's PID namespace and the namespaces below, by this machine's pids."""
    found, queue = [], [bed.host_pid]
    while queue:
        pid = queue.pop()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                queue += map(int, task.read_text().split())
    return found
