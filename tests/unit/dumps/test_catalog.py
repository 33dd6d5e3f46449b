"""The counts of a folder, the same for whoever looks, and the rates, whatever clocks, restarts and consumers do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from remote.dumps import catalog as catalogs
from remote.dumps import rows, watch
from remote.dumps.rates import Rates
from remote.wire.dumps import DumpCounts, DumpRow, DumpState
from tests.dumpfolder import dump, forerunner
from tests.unit.dumps.watching import refresh, watching


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


def test_counts_tell_complete_from_writing_and_bad(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("examined", [3, 7, 1000])
def test_everybody_counts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examined: int) -> None:
    """However many are listed, and whether the folder was watched while it filled or is seen for the first time."""
    monkeypatch.setattr(catalogs, "EXAMINED", examined)
    (tmp_path / ".counter").write_text("12")
    with watching(tmp_path, last=4) as seen:
        for number in range(12):
            path = dump(tmp_path, number, done=number % 5 != 4)
            if not number % 3:
                os.truncate(path / "final.pt", 100)
        counted = [watch.newest(str(tmp_path), last).counts for last in (1, 4, 20, 50, 5000)]
        assert len(set(map(essence, counted))) == 1
        seen.until(lambda: essence(seen.changes[-1].counts) == essence(counted[0]))
        assert counted[0].older == max(12 - examined, 0)
        assert counted[0].there == 12
        for number in (11, 10, 9, 2):  # a consumer takes the newest, and some in between: older ones are the newest now
            shutil.rmtree(tmp_path / f"req_{number}")
        fewer = watch.newest(str(tmp_path), 20).counts
        assert fewer.there == 8
        seen.until(lambda: essence(seen.changes[-1].counts) == essence(fewer))


def essence(counts: DumpCounts) -> tuple[int, ...]:
    return (counts.complete, counts.writing, counts.bad, counts.older, counts.given)


def test_older_ones_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    examine = rows.examine

    def examined(folder: str, name: str) -> DumpRow | None:
        looked.append(name)
        return examine(folder, name)

    monkeypatch.setattr(catalogs, "EXAMINED", 5)
    monkeypatch.setattr(rows, "examine", examined)
    for number in range(40):
        dump(tmp_path, number)
    counts = watch.newest(str(tmp_path), 1).counts
    assert (counts.complete, counts.older) == (5, 35)
    assert sorted(looked) == [f"req_{number}" for number in range(35, 40)]


@pytest.mark.parametrize("last", [1, 100])
def test_older_ones_that_come_back_are_no_news_for_the_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    monkeypatch.setattr(catalogs, "EXAMINED", 2)
    for number in range(6):
        dump(tmp_path, number, timestamp=1771958433.0)
    catalog = catalogs.Catalog(str(tmp_path), last)
    refresh(catalog)
    for number in (5, 4):
        shutil.rmtree(tmp_path / f"req_{number}")
    refresh(catalog)
    assert catalog.counts().complete == 2
    assert catalog.counts().requests_per_s == 0


COUNTERS = {"00000000000000000017\n": 17, "": 0, "many": 0, "9" * 20: 0, "-3": 0, "1" * 70: 0}


@pytest.mark.parametrize("text", COUNTERS)
def test_how_many_there_have_been_is_told_by_the_counter(tmp_path: Path, text: str) -> None:
    (tmp_path / ".counter").write_text(text)
    found = watch.newest(str(tmp_path), 20).counts
    assert (found.there, found.given) == (0, COUNTERS[text])


def test_a_counter_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("17")
    (tmp_path / ".counter").symlink_to("other")
    assert watch.newest(str(tmp_path), 20).counts.given == 0


def test_without_a_counter_it_is_told_by_what_was_seen(tmp_path: Path) -> None:
    forerunner(tmp_path, 3)
    with watching(tmp_path) as seen:
        assert seen.changes[-1].counts.given == 4
        shutil.rmtree(tmp_path / "req_3")
        seen.until(lambda: not seen.changes[-1].counts.there)
        assert seen.changes[-1].counts.given == 4


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
