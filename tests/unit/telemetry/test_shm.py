"""Room for dumps: of the file system, and of the memory that it is charged to."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from remote import processes
from remote.telemetry import memory, segments, shm, stale
from remote.wire.telemetry import ShmSnapshot
from tests.unit.server.conftest import until

GIB = 1 << 30


def test_a_folder_that_is_not_there_yet_is_looked_at_through_its_parent(tmp_path: Path) -> None:
    seen = shm.read(str(tmp_path / "a" / "b"))
    system = os.statvfs(tmp_path)
    assert seen.path == str(tmp_path / "a" / "b")
    assert seen.size == system.f_blocks * system.f_frsize
    assert seen.problem == ""
    assert seen.dumps == 0


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
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(processes, "cgroup", lambda _: "/lxc/129")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    assert memory.headroom() == 2 * GIB  # the parent's: 96 - 95, and a GiB that can be reclaimed
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB\nMemAvailable:  1048576 kB\n")  # as lxcfs has it
    assert memory.headroom() == GIB


def test_a_limit_above_what_can_be_seen_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 in a control group namespace: the container's limit is on a group that is out of sight."""
    group = tmp_path / "memory"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(f"{(1 << 63) - 4096}\n")
    (group / "memory.usage_in_bytes").write_text(f"{5 * GIB}\n")
    (group / "memory.stat").write_text(f"hierarchical_memory_limit {8 * GIB}\ntotal_inactive_file 0\n")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(processes, "cgroup", lambda _: "/")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "nothing")
    assert memory.headroom() == 3 * GIB


def test_no_bound_that_can_be_seen_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "nothing")
    assert memory.headroom() is None


@pytest.mark.parametrize(("headroom", "room"), [(None, 10), (3, 3), (30, 10)])
def test_room_is_the_least(headroom: int | None, room: int) -> None:
    assert shm.room(ShmSnapshot(0.0, "/dev/shm", size=20, used=10, free=10, cgroup_headroom=headroom)) == room


def test_only_changes_of_size_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 1000, 500, 500, 0, 0, 0, 0, 255)))
    seen: list[ShmSnapshot] = []
    cancelled = threading.Event()
    watcher = threading.Thread(target=shm.watch, args=(str(tmp_path), seen.append, cancelled))
    watcher.start()
    until(lambda: seen)
    cancelled.wait(1.3)
    assert len(seen) == 1
    (tmp_path / "req_0").mkdir()
    (tmp_path / "req_0" / "aux_0.pt").write_bytes(bytes(2 << 20))
    until(lambda: seen[-1].dumps == 2 << 20)
    cancelled.set()
    watcher.join(60)
    assert seen[0].dumps == 0
    assert len(seen) <= 3  # a look may fall between the folder and its file


def test_segments_are_told_by_owner_and_what_is_cleaned_is_no_longer_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SHM", tmp_path)
    for name, pages in (("nccl-AbC123", 3), ("psm_0123abcd", 2), ("sem.mp-abcdefgh", 1), ("else", 9)):
        (tmp_path / name).write_bytes(bytes(pages * 4096))
    kept, left, unsure = segments.listing()
    found = (stale.Found(kept, False, "open"), stale.Found(left, True, "dead"), stale.Found(unsure, None, "not root"))
    monkeypatch.setattr(stale, "survey", lambda: stale.Survey(found))
    watcher = shm._Watcher(str(tmp_path / "dumps"))
    seen = watcher.look(1.0)
    assert [(owner.name, owner.bytes, owner.files) for owner in seen.owners] == [
        ("NCCL", 12288, 1),
        ("Python", 12288, 2),
    ]
    assert (seen.stale, seen.stale_files, seen.unsure, seen.doubt) == (8192, 1, 4096, "not root")
    (tmp_path / left.name).unlink()
    (tmp_path / unsure.name).write_bytes(bytes(4096))  # in use after all
    watcher._listed_again = 0.0
    seen = watcher.look(1.0)
    assert [(owner.name, owner.files) for owner in seen.owners] == [("NCCL", 1), ("Python", 1)]
    assert (seen.stale, seen.stale_files, seen.unsure, seen.doubt) == (0, 0, 0, "")


def test_dumps_elsewhere_have_a_file_system_without_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SHM", Path("/proc"))
    monkeypatch.setattr(segments, "listing", lambda: pytest.fail("listed"))
    assert shm.read(str(tmp_path)).owners == ()
