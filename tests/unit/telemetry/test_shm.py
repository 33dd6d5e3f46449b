"""Room for dumps: of the file system, and of the memory that it is charged to."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from remote import processes
from remote.telemetry import shm
from remote.wire.telemetry import ShmSnapshot

GIB = 1 << 30


def test_a_folder_that_is_not_there_yet_is_looked_at_through_its_parent(tmp_path: Path) -> None:
    seen = shm.read(str(tmp_path / "a" / "b"))
    system = os.statvfs(tmp_path)
    assert seen.path == str(tmp_path / "a" / "b")
    assert seen.size == system.f_blocks * system.f_frsize
    assert seen.problem == ""
    assert seen.dumps == 0


def test_what_dumps_hold_is_counted(tmp_path: Path) -> None:
    for number, size in enumerate((1000, 2000)):
        folder = tmp_path / f"req_{number}"
        folder.mkdir()
        (folder / "aux_0.pt").write_bytes(bytes(size))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert shm.dumps_bytes(str(tmp_path)) == 3000
    assert shm.dumps_bytes(str(tmp_path / "nothing")) == 0


def test_a_count_that_takes_too_long_is_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (tmp_path / f"req_{number}").mkdir()
        (tmp_path / f"req_{number}" / "aux_0.pt").write_bytes(bytes(100))
    monkeypatch.setattr(shm, "COUNTED_AT_MOST", -1.0)
    assert shm.dumps_bytes(str(tmp_path)) == 1000


@pytest.mark.parametrize(
    ("root", "limit", "use", "cache"),
    [
        ("", "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_the_tightest_control_group_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, limit: str, use: str, cache: str
) -> None:
    group = tmp_path / root / "lxc" / "129"
    group.mkdir(parents=True)
    for folder, most, used in ((group, 64 * GIB, 60 * GIB), (group.parent, 96 * GIB, 95 * GIB)):
        (folder / limit).write_text(f"{most}\n")
        (folder / use).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"x 1\n{cache} {GIB}\n")
    (tmp_path / root / limit).write_text("max\n" if not root else f"{(1 << 63) - 4096}\n")
    monkeypatch.setattr(shm, "CGROUPS", tmp_path)
    monkeypatch.setattr(processes, "cgroup", lambda _: "/lxc/129")
    monkeypatch.setattr(shm, "MEMINFO", tmp_path / "meminfo")
    assert shm.headroom() == 2 * GIB  # the parent's: 96 - 95, and a GiB that can be reclaimed
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB\nMemAvailable:  1048576 kB\n")  # as lxcfs has it
    assert shm.headroom() == GIB


def test_no_bound_that_can_be_seen_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shm, "CGROUPS", tmp_path)
    monkeypatch.setattr(shm, "MEMINFO", tmp_path / "nothing")
    assert shm.headroom() is None


@pytest.mark.parametrize(("headroom", "room"), [(None, 10), (3, 3), (30, 10)])
def test_room_is_the_least(headroom: int | None, room: int) -> None:
    assert shm.room(ShmSnapshot(0.0, "/dev/shm", size=20, used=10, free=10, cgroup_headroom=headroom)) == room


def test_only_changes_of_size_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shm, "COUNTED_EVERY", 0.0)
    seen: list[ShmSnapshot] = []
    monkeypatch.setattr(shm, "_look", lambda path, held: ShmSnapshot(float(len(seen)), path, dumps=held))
    cancelled = threading.Event()
    watcher = threading.Thread(target=shm.watch, args=(str(tmp_path), seen.append, cancelled))
    watcher.start()
    cancelled.wait(1.3)
    assert len(seen) == 1
    (tmp_path / "req_0").mkdir()
    (tmp_path / "req_0" / "aux_0.pt").write_bytes(bytes(2 << 20))
    cancelled.wait(1.5)
    cancelled.set()
    watcher.join(5)
    assert [one.dumps for one in seen] == [0, 2 << 20]
