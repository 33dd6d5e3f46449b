"""The list of dumps kept up to date: only changes are sent, and a listing costs what changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote.dumps import catalog as catalogs
from remote.dumps import rows, watch
from remote.dumps.rates import Rates
from remote.wire import codec
from remote.wire.dumps import DumpsChange, DumpState
from tests.dumpfolder import dump, forerunner


class Watching:
    """A watch in a thread, and the picture that its changes make."""

    def __init__(self, folder: Path, last: int) -> None:
        self.changes: list[DumpsChange] = []
        self.rows: dict[int, Any] = {}
        self.cancelled = threading.Event()
        self.thread = threading.Thread(target=watch.watch, args=(str(folder), last, self._take, self.cancelled))

    def _take(self, change: DumpsChange) -> None:
        change = codec.decode(DumpsChange, codec.encode(change))
        if change.reset:
            self.rows.clear()
        for number in change.removed:
            del self.rows[number]
        self.rows.update({row.number: row for row in change.rows})
        self.changes.append(change)

    @property
    def states(self) -> dict[int, DumpState]:
        return {number: row.state for number, row in self.rows.items()}

    def until(self, true: Callable[[], object], seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, (self.changes[-1:], self.states)
            time.sleep(0.02)


@contextlib.contextmanager
def watching(folder: Path, last: int = 100) -> Iterator[Watching]:
    made = Watching(folder, last)
    made.thread.start()
    try:
        made.until(lambda: made.changes)
        yield made
    finally:
        made.cancelled.set()
        made.thread.join(5)
        assert not made.thread.is_alive()


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
        seen.until(lambda: seen.changes[-1].counts.complete == 5)
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


def test_counts_tell_complete_from_writing_and_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        dump(tmp_path, number)
    dump(tmp_path, 4, done=False)
    old = dump(tmp_path, 5, done=False)
    for entry in (*old.iterdir(), old):
        os.utime(entry, (1000, 1000))
    os.truncate(tmp_path / "req_3" / "final.pt", 100)
    (tmp_path / "req_6").mkdir()
    (tmp_path / "req_6" / "error").write_text("x")
    counts = watch.newest(str(tmp_path), 100).counts
    assert (counts.complete, counts.writing, counts.bad) == (3, 1, 3)
    assert watch.newest(str(tmp_path), 2).counts == counts, "whoever asks, for however many"
    monkeypatch.setattr(watch, "COUNTED", 2)
    older = watch.newest(str(tmp_path), 2).counts  # req_3 is complete as long as only its `done` is looked for
    assert (older.complete, older.writing, older.bad) == (4, 1, 2)


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


class Clock:
    """Both clocks, in the tests' hands."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.mono = 1000.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    def tick(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(catalogs, "time", made)
    return made


def touched(path: Path, at: float) -> None:
    for entry in (*path.iterdir(), path):
        os.utime(entry, (at, at))


def states(catalog: catalogs.Catalog) -> dict[int, DumpState]:
    return {number: row.state for number, row in catalog.rows.items()}


def refresh(catalog: catalogs.Catalog) -> None:
    catalog._folder._due = 0
    catalog.refresh(1.0)


def test_a_quiet_dump_is_partial_whatever_the_clock_does(tmp_path: Path, clock: Clock) -> None:
    touched(forerunner(tmp_path, 0), clock.wall)
    (tmp_path / "req_0" / "done").unlink()
    touched(tmp_path / "req_0", clock.wall)
    catalog = catalogs.Catalog(str(tmp_path), 10)
    refresh(catalog)
    clock.wall += 7200  # the clock is set
    refresh(catalog)
    assert states(catalog) == {0: DumpState.WRITING}
    clock.wall -= 14400
    clock.tick(61)
    refresh(catalog)
    assert states(catalog) == {0: DumpState.PARTIAL}
    (tmp_path / "req_0" / "done").touch()  # it was only slow
    clock.tick(6)
    refresh(catalog)
    assert states(catalog) == {0: DumpState.COMPLETE}
    assert (catalog.counts().complete, catalog.counts().bad) == (1, 0)


def test_rates_survive_restarts_deletions_and_clock_jumps(tmp_path: Path, clock: Clock) -> None:
    dump(tmp_path, 0, timestamp=clock.wall - 3600)
    dump(tmp_path, 1, timestamp=clock.wall - 4)
    catalog = catalogs.Catalog(str(tmp_path), 10)  # a new agent: what was finished just now counts, the old does not
    refresh(catalog)
    assert catalog.counts().requests_per_s == pytest.approx(0.1)
    dump(tmp_path, 2, ids=range(100), timestamp=clock.wall)
    clock.tick(1)
    refresh(catalog)
    assert catalog.counts().tokens_per_s == pytest.approx(11.0)
    shutil.rmtree(tmp_path / "req_2")
    clock.wall -= 7200
    clock.mono += 1
    refresh(catalog)
    assert catalog.counts().requests_per_s == pytest.approx(0.2)
    clock.tick(5)
    assert catalog.counts().requests_per_s == pytest.approx(0.1)
    clock.tick(5)
    assert catalog.counts().requests_per_s == catalog.counts().bytes_per_s == 0


def test_a_pause_makes_no_rate_that_never_was(tmp_path: Path, clock: Clock) -> None:
    """The agent was stopped, or starved, for a minute while the server went on with two dumps a second."""
    catalog = catalogs.Catalog(str(tmp_path), 200)
    tmp_path.joinpath("x").touch()
    refresh(catalog)
    for number in range(120):
        dump(tmp_path, number, ids=range(10))
    clock.tick(60)
    refresh(catalog)
    counts = catalog.counts()
    assert counts.complete == 120
    assert counts.requests_per_s == pytest.approx(2.0, abs=0.11)
    assert counts.tokens_per_s == pytest.approx(20.0, abs=1.1)
    clock.tick(5)
    refresh(catalog)
    assert catalog.counts().requests_per_s == pytest.approx(1.0, abs=0.11)


def test_a_restart_and_a_consumer_that_takes_all_make_no_rate_negative_or_huge(tmp_path: Path, clock: Clock) -> None:
    catalog = catalogs.Catalog(str(tmp_path), 200)
    refresh(catalog)
    for number in range(20):
        dump(tmp_path, number, ids=range(10))
        clock.tick(1)
        refresh(catalog)
        shutil.rmtree(tmp_path / f"req_{number}")  # at once
    assert catalog.counts().requests_per_s == pytest.approx(1.0, abs=0.11)
    refresh(catalog)
    assert catalog.counts().complete == 0
    for number in range(10):  # the forerunner's server was started again: its numbers begin at 0
        dump(tmp_path, number, ids=range(10))
        clock.tick(1)
        refresh(catalog)
    assert catalog.counts().requests_per_s == pytest.approx(1.0, abs=0.11)
    assert catalog.counts().complete == 10
    clock.tick(11)
    assert catalog.counts().tokens_per_s == catalog.counts().bytes_per_s == 0


def test_rates_count_a_window() -> None:
    rates = Rates()
    for second in range(20):
        rates.add(second, 100, 1000)
    assert rates.read(19.5) == (1.0, 100.0, 1000.0)
    assert rates.read(40) == (0, 0, 0)


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
    catalog.refresh(0.01)
    spent = time.process_time() - started
    assert len(catalog.rows) == 1000
    assert spent < 2.0  # 0.4 s on an idle machine; room for a busy one
