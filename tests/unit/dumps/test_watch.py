"""The list of dumps kept up to date: only changes are sent, and a listing costs what changed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote.dumps import catalog as catalogs
from remote.dumps import rows, watch
from remote.wire.dumps import DumpState
from tests.dumpfolder import dump, forerunner
from tests.unit.dumps.watching import refresh, watching


def test_it_follows_a_dump_from_its_first_file_to_its_end(tmp_path: Path) -> None:
    dump(tmp_path, 0)
    with watching(tmp_path) as seen:
        assert seen.changes[0].reset
        assert seen.states == {0: DumpState.COMPLETE}
        path = forerunner(tmp_path, 1)
        (path / "done").unlink()
        seen.until(lambda: seen.states.get(1) is DumpState.WRITING)
        (path / "done").touch()
        seen.until(lambda: seen.states.get(1) is DumpState.COMPLETE)
        shutil.rmtree(tmp_path / "req_0")
        seen.until(lambda: 0 not in seen.rows)
        assert not any(change.reset for change in seen.changes[1:])


def test_a_staged_dump_becomes_the_dump_of_its_number(tmp_path: Path) -> None:
    with watching(tmp_path) as seen:
        staged = dump(tmp_path, 4, name=f".req_4.{os.getpid()}")
        (staged / "done").unlink()
        seen.until(lambda: seen.states.get(4) is DumpState.WRITING)
        (staged / "done").touch()
        staged.rename(tmp_path / "req_4")
        seen.until(lambda: seen.states.get(4) is DumpState.COMPLETE)
        assert seen.changes[-1].counts.requests_per_s == pytest.approx(0.1)


def test_nothing_new_is_not_said(tmp_path: Path) -> None:
    dump(tmp_path, 0, timestamp=1771958433.0)
    with watching(tmp_path) as seen:
        time.sleep(1)
        assert len(seen.changes) == 1


def test_many_at_once_are_one_change(tmp_path: Path) -> None:
    with watching(tmp_path) as seen:
        started = time.monotonic()
        for number in range(50):
            dump(tmp_path, number)
        seen.until(lambda: len(seen.rows) == 50)
        assert len(seen.changes) <= 2 + (time.monotonic() - started) * 5


def test_rows_are_the_newest_and_older_ones_return(tmp_path: Path) -> None:
    for number in range(5):
        dump(tmp_path, number)
    with watching(tmp_path, last=3) as seen:
        assert list(seen.rows) == [4, 3, 2]
        assert seen.changes[-1].counts.complete == 5
        dump(tmp_path, 5)
        seen.until(lambda: set(seen.rows) == {5, 4, 3})
        shutil.rmtree(tmp_path / "req_4")
        seen.until(lambda: set(seen.rows) == {5, 3, 2})
        assert seen.changes[-1].counts.complete == 5


def test_odd_names_are_counted_and_named(tmp_path: Path) -> None:  # D09
    dump(tmp_path, 3)
    for name in ("req_foo", "req_-1", "req_007"):
        (tmp_path / name).mkdir()
    (tmp_path / "req_5").write_text("a file")
    (tmp_path / "req_6").symlink_to("req_6")
    (tmp_path / ".counter").write_text("7")
    (tmp_path / ".loaded").mkdir()
    for found in (watch.newest(str(tmp_path), 1), watch.newest(str(tmp_path), 100)):
        assert [row.number for row in found.rows] == [3]
        assert found.counts.odd == ("req_-1", "req_007", "req_5", "req_6", "req_foo")
        assert found.counts.odd_total == 5


def test_odd_names_come_and_go(tmp_path: Path) -> None:
    with watching(tmp_path) as seen:
        (tmp_path / "req_2").write_text("a file")
        seen.until(lambda: seen.changes[-1].counts.odd == ("req_2",))
        (tmp_path / "req_2").unlink()
        seen.until(lambda: seen.changes[-1].counts.odd_total == 0)


def test_names_that_are_no_text_cross_the_link(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"req_\xff\x1b[31m")).mkdir()
    assert watch.newest(str(tmp_path), 5).counts.odd == ("req_\udcff\x1b[31m",)


def test_gone_between_listing_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # D10
    dump(tmp_path, 1)
    examine = rows.examine

    def consumed(folder: str, name: str) -> Any:
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        return examine(folder, name)

    monkeypatch.setattr(rows, "examine", consumed)
    found = watch.newest(str(tmp_path), 5)
    assert [row.state for row in found.rows] == [DumpState.GONE]
    assert found.counts.bad == 0


def test_a_folder_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    with watching(folder) as seen:
        assert "is not there yet" in seen.changes[0].problem
        dump(folder, 0)
        seen.until(lambda: seen.rows)
        assert seen.changes[-1].reset
        assert not seen.changes[-1].problem
        shutil.rmtree(folder)
        seen.until(lambda: seen.changes[-1].problem)
        assert not seen.rows
        folder.write_text("a file")
        seen.until(lambda: "not a folder" in seen.changes[-1].problem)


def test_a_folder_made_again_starts_over(tmp_path: Path) -> None:
    folder, other = tmp_path / "dumps", tmp_path / "other"
    dump(folder, 0)
    dump(other, 1)
    with watching(folder) as seen:
        folder.rename(tmp_path / "old")
        other.rename(folder)
        seen.until(lambda: set(seen.rows) == {1})


def test_an_idle_poll_lists_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        dump(tmp_path, number)
    catalog = catalogs.Catalog(str(tmp_path), 5)
    for _ in range(3):
        refresh(catalog)
    for name in ("listdir", "scandir", "lstat"):
        monkeypatch.delattr(os, name)
    for _ in range(5):
        refresh(catalog)
    monkeypatch.undo()


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Path]:
    """A folder for 100,000 directories, in memory where there is /dev/shm, and not left behind."""
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else tmp_path))
    yield folder
    shutil.rmtree(folder)


def test_a_hundred_thousand_are_listed_at_once(crowd: Path) -> None:  # D09
    for number in range(100_000):
        (crowd / f"req_{number}").mkdir()
    for number in range(99_000, 100_000):
        (crowd / f"req_{number}" / "done").touch()
    started = time.process_time()
    catalog = catalogs.Catalog(str(crowd), 1000)
    catalog.refresh()
    spent = time.process_time() - started
    assert len(catalog.rows) == 1000
    assert spent < 20  # 0.4 s on an idle machine
