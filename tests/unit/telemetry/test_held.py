"""What dumps hold: right in the end whatever happens in the folder, and counted at the cost of what changed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from unittest import mock

import pytest

from remote.telemetry import held
from remote.telemetry.held import Held

PAGE = 4096


def filled(folder: Path, pages: int, *, done: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "aux_0.pt").write_bytes(bytes(pages * PAGE))
    if done:
        (folder / "done").touch()
    return folder


def look(counted: Held, seconds: float = 5.0) -> int:
    """As after the folder may be listed again, in pages."""
    counted._folder._due = 0.0
    size = counted.look(seconds)
    assert size % PAGE == 0
    return size // PAGE


def test_what_comes_grows_and_goes(tmp_path: Path) -> None:
    counted = Held(str(tmp_path / "dumps"))
    assert look(counted) == 0, "there is no folder yet"
    folder = tmp_path / "dumps"
    filled(folder / "req_0", 3)
    filled(folder / "req_1", 1, done=False)
    assert look(counted) == 4
    filled(folder / "req_1", 5, done=False)
    assert look(counted, 0.0) == 8, "what is being written is counted at each look"
    (folder / "req_1").rename(folder / "req_2")
    (folder / "file").write_bytes(bytes(2 * PAGE))
    (folder / "loop").symlink_to("..")
    assert look(counted) == 10
    shutil.rmtree(folder / "req_0")
    assert look(counted) == 7
    shutil.rmtree(folder)
    assert look(counted) == 0
    filled(folder / "req_0", 6)
    assert [look(counted), look(counted)][-1] == 6


def test_a_dump_emptied_by_its_consumer_is_noticed(tmp_path: Path) -> None:
    counted = Held(str(tmp_path))
    for number in range(20):
        filled(tmp_path / f"req_{number}", 1)
    assert look(counted) == 20
    (tmp_path / "req_7" / "aux_0.pt").unlink()
    assert look(counted) == 19


def test_what_is_not_counted_yet_is_taken_for_average(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        filled(tmp_path / f"req_{number}", 2)
    clock = iter(range(10_000))
    counted = Held(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(clock) / 1000)
        assert counted.look(0.005) == 20 * PAGE
    assert 0 < len(counted._sizes) < 10, "else this shows nothing"


def test_a_look_without_time_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Held(str(tmp_path))
    for number in range(10):
        filled(tmp_path / f"req_{number}", 1)
    assert [look(counted), look(counted)] == [10, 10]
    for name in ("listdir", "scandir", "lstat"):
        monkeypatch.delattr(os, name)
    assert look(counted, -1.0) == 10
    monkeypatch.undo()


def test_a_name_that_comes_and_goes_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Held(str(tmp_path))
    for _ in range(5):
        filled(tmp_path / "req_0", 1)
        assert look(counted) == 1
        shutil.rmtree(tmp_path / "req_0")
        assert look(counted) == 0
    filled(tmp_path / "req_0", 1)
    assert look(counted) == 1
    measure = mock.Mock(wraps=held._measure)
    monkeypatch.setattr(held, "_measure", measure)
    assert look(counted) == 1
    assert measure.call_count == 1


def test_one_that_is_never_done_is_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Held(str(tmp_path))
    filled(tmp_path / "req_0", 1, done=False)
    assert look(counted) == 1
    assert counted._growing
    monkeypatch.setattr(held, "SETTLED", -1.0)
    assert look(counted) == 1
    assert not counted._growing
