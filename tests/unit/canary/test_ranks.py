"""Canaries of two consoles at once: each names and removes its own alone, and what was forgotten goes."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from remote.canary import ranks
from remote.canary.ranks import Ranks
from tests.dumpfolder import dump
from tests.unit.dumps.test_request import target

OLD = (1000, 1000)


def of(folder: Path, rid: str) -> Ranks:
    return Ranks(target(1, folder, tp=2), rid, rid * 8)


def copy(folder: Path, number: int, rid: str) -> Path:
    return dump(folder / ".ranks" / "1", number, rid=rid, tp_rank=1)


def test_each_names_its_own(tmp_path: Path) -> None:
    file, one, other = tmp_path / ".canary", of(tmp_path, "one"), of(tmp_path, "two")
    one.name()
    other.name()
    assert set(file.read_text().split()) == {"one", "one" * 8, "two", "two" * 8}
    one.withdraw()
    assert file.read_text().split() == ["two", "two" * 8]
    other.withdraw()
    other.withdraw()
    assert not list(tmp_path.iterdir())


def test_each_removes_its_own(tmp_path: Path) -> None:
    mine, others = copy(tmp_path, 0, "one"), copy(tmp_path, 1, "two")
    os.utime(tmp_path / ".ranks", OLD)
    of(tmp_path, "one").remove()
    assert not mine.exists()
    assert others.exists(), "its canary has withdrawn the name and is about to compare"
    of(tmp_path, "two").remove()
    assert not list(tmp_path.iterdir())


def test_what_a_killed_one_left_goes(tmp_path: Path) -> None:
    left, file = copy(tmp_path, 0, "killed"), tmp_path / ".canary"
    file.write_bytes(b"killed\n\xff\n")
    for path in (left, file):
        os.utime(path, OLD)
    one = of(tmp_path, "one")
    one.name()
    assert file.read_text().split() == ["one", "one" * 8]
    one.withdraw()
    one.remove()
    assert not list(tmp_path.iterdir())


def test_a_name_that_can_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, _: str) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(ranks, "_WAIT_S", 0.0)
    monkeypatch.setattr(ranks, "_replace", full)
    one = of(tmp_path, "one")
    one.name()
    one.withdraw()
    found = one.check(None, None)  # type: ignore[arg-type]
    assert "No space left" in found.found
    assert not found.remedy, "the patch is not to blame"


def test_a_lock_that_is_kept_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another console's canary was stopped while it wrote its names."""
    monkeypatch.setattr(ranks, "_WAIT_S", 0.0)
    monkeypatch.setattr(ranks, "_LOCK_S", 0.2)
    one = of(tmp_path, "one")
    with ranks._locked(str(tmp_path)):
        one.name()
        found = one.check(None, None)  # type: ignore[arg-type]
        assert "another process has locked the folder" in found.found
        mine = copy(tmp_path, 0, "one")
        one.withdraw()
        one.remove()
    assert mine.exists()
    of(tmp_path, "one").remove()
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_let_go_is_taken(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        with ranks._locked(str(tmp_path)):
            naming = pool.submit(of(tmp_path, "one").name)
            time.sleep(0.1)
            assert not (tmp_path / ".canary").exists()
        naming.result(20)
    assert (tmp_path / ".canary").read_text().split() == ["one", "one" * 8]


def test_no_half_a_name_stays(tmp_path: Path) -> None:
    (tmp_path / ".canary").mkdir()
    with pytest.raises(OSError, match="directory"):
        ranks._replace(str(tmp_path / ".canary"), "words\n")
    assert [path.name for path in tmp_path.iterdir()] == [".canary"]
