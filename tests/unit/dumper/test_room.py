"""Room is looked at before it is used, and what is promised to one request is not promised to another."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.dumper import room
from remote.dumper.archive import Tensor
from remote.dumper.problem import DumpFailure
from remote.dumper.room import Room

from .making import desk, part, states, write

MIB = 1 << 20


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A real one of 4 MiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small tmpfs can be mounted by root only")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_promises_add_up_until_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_free", lambda folder: (10 * MIB, MIB))
    found = Room(str(tmp_path))
    with found.promise(6 * MIB) as written:
        with pytest.raises(DumpFailure):
            found._set_apart(4 * MIB)
        written(5 * MIB)
        with found.promise(8 * MIB):
            pass
        written(5 * MIB)
    with contextlib.suppress(KeyError), found.promise(9 * MIB):
        raise KeyError("what fails gives its room back too")
    with found.promise(9 * MIB):
        pass


def test_a_full_tmpfs_costs_the_request_alone(tmpfs: Path) -> None:
    place = desk(tmpfs)
    assert write(place) is None
    large = {**states(10), "final": Tensor("final", "float32", (MIB, 1), memoryview(bytes(4 * MIB)))}
    problem = write(place, part(tensors=large))
    assert problem is not None
    assert problem.cause == "no room where the dumps are written"
    assert write(place) is None, "the next small one works"
    assert not list(tmpfs.glob("req_1/*.pt"))


def test_a_tmpfs_that_fills_up_midway(tmpfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process took the room after it was promised: the file system says so, and nothing partial stays."""
    monkeypatch.setattr(room, "_free", lambda folder: (1 << 40, 0))
    large = {**states(10), "aux_1": Tensor("aux_1", "float32", (MIB, 1), memoryview(bytes(4 * MIB)))}
    place = desk(tmpfs)
    problem = write(place, part(tensors=large))
    assert problem is not None
    assert problem.cause == "no space left where the dumps are written"
    assert sorted(path.name for path in (tmpfs / "req_0").iterdir()) == ["error", "meta.json"]
    assert [path.name for path in tmpfs.iterdir() if path.name.startswith(".req")] == []
    assert write(place) is None


def test_tmpfs_is_told_from_other_file_systems(tmpfs: Path) -> None:
    assert room._is_tmpfs(str(tmpfs))
    assert not room._is_tmpfs("/proc")


@pytest.mark.parametrize(
    ("limit", "headroom"), [("max", 77), ("5000", 5000 - 4000 + 300), ("3000", 0), ("nonsense", 77)]
)
def test_the_memory_limit_of_a_cgroup(tmp_path: Path, limit: str, headroom: int) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("4000\n")
    (tmp_path / "memory.stat").write_text("anon 1\nshmem 900\ninactive_file 100\nactive_file 200\n")
    assert room._headroom_at(str(tmp_path), 77) == headroom


def test_no_cgroup_there(tmp_path: Path) -> None:
    assert room._headroom_at(str(tmp_path / "none"), 77) == 77
