"""What the screen keeps: rows, log lines, ages and rates; and how values get there from the link's threads."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest

from console.link import LinkPhase, LinkState
from console.tui.dump_list import MOST_ROWS, DumpList
from console.tui.feed import Feed
from console.tui.log_buffer import MOST_LINES, SLACK, LogBuffer
from console.tui.picture import Picture
from console.tui.run import Run
from remote.wire.dumps import DumpCounts, DumpRow, DumpsChange, DumpState
from remote.wire.plan import Step, StepResult
from remote.wire.server import LogLines
from tests.ui import scenes
from tests.ui.fake_link import HELLO, FrozenClock


def change(*rows: DumpRow, removed: tuple[int, ...] = (), reset: bool = False) -> DumpsChange:
    return DumpsChange(scenes.NOW, reset, rows, removed, DumpCounts())


def numbers(dumps: DumpList) -> list[int]:
    return [dumps.at(index).number for index in range(len(dumps))]


class TestDumpList:
    def test_newest_first_whatever_the_order_they_come_in(self) -> None:
        dumps = DumpList()
        dumps.change(change(*reversed(scenes.rows(3))))
        dumps.change(change(*scenes.rows(1, 9), *scenes.rows(2, 5)))
        assert numbers(dumps) == [9, 6, 5, 3, 2, 1]

    def test_removed_and_reset(self) -> None:
        dumps = DumpList()
        dumps.change(change(*scenes.rows(5)))
        dumps.change(change(removed=(4, 99)))
        assert numbers(dumps) == [5, 3, 2, 1]
        assert dumps.index_of(3) == 1
        assert dumps.index_of(4) is None
        dumps.change(change(*scenes.rows(1, 7), reset=True))
        assert numbers(dumps) == [7]

    @pytest.mark.parametrize(
        ("needle", "found"),
        [("", [4, 3, 2, 1]), ("CORR", [3]), ("s-000002", [2]), ("nan", [3]), (" 4 ", [4]), ("nothing", [])],
    )
    def test_filter(self, needle: str, found: list[int]) -> None:
        dumps = DumpList()
        bad = dataclasses.replace(scenes.rows(1, 3)[0], state=DumpState.CORRUPT, note="aux_2: NaN")
        dumps.change(change(*scenes.rows(4), bad))
        dumps.filter(needle)
        assert numbers(dumps) == found

    def test_a_row_that_changes_joins_or_leaves_the_filter(self) -> None:
        dumps = DumpList()
        dumps.filter("writing")
        row = dataclasses.replace(scenes.rows(1)[0], state=DumpState.WRITING)
        dumps.change(change(row))
        assert numbers(dumps) == [1]
        dumps.change(change(dataclasses.replace(row, state=DumpState.COMPLETE)))
        assert numbers(dumps) == []

    def test_a_hundred_thousand_rows(self) -> None:
        dumps = DumpList()
        dumps.change(change(*scenes.rows(MOST_ROWS)))
        began = time.process_time()
        dumps.filter("s-0999")
        assert len(dumps) == 100
        assert time.process_time() - began < 10, "a tenth of a second; with the square of them minutes"
        dumps.filter("")
        began = time.process_time()
        for number in range(MOST_ROWS + 1, MOST_ROWS + 101):
            dumps.change(change(*scenes.rows(1, number)))
        assert time.process_time() - began < 10
        dumps.change(change(*scenes.rows(500, MOST_ROWS + 101)))
        assert len(dumps) == MOST_ROWS
        assert dumps.at(0).number == MOST_ROWS + 600


class TestLogBuffer:
    def test_lines_have_numbers_that_last(self) -> None:
        log = LogBuffer()
        log.add(LogLines(tuple(map(str, range(MOST_LINES))), "log"))
        log.add(LogLines(tuple(map(str, range(MOST_LINES, MOST_LINES + SLACK + 1))), "log"))
        assert len(log.lines) == MOST_LINES
        assert log.lines[0] == str(log.first)
        assert log.end == MOST_LINES + SLACK + 1

    def test_what_happened_to_the_file_is_said(self) -> None:
        log = LogBuffer()
        log.add(LogLines(("new",), "log", "the file was truncated", skipped=1200))
        assert log.lines == ["── the file was truncated ──", "── 1,200 lines left out ──", "new"]


class TestPicture:
    def live(self, **more: object) -> tuple[Picture, FrozenClock]:
        clock = FrozenClock()
        picture = Picture(scenes.PROFILE, clock)
        state = LinkState(LinkPhase.LIVE, "live", clock.now, hello=HELLO)
        picture.see_link(dataclasses.replace(state, **more))  # type: ignore[arg-type]
        return picture, clock

    def test_ages_are_right_when_the_container_is_two_hours_ahead(self) -> None:
        picture, clock = self.live(clock_offset=7200.0)
        assert picture.since(clock.wall() + 7200 - 5) == pytest.approx(5)

    def test_ages_stand_still_while_the_link_is_lost(self) -> None:
        picture, clock = self.live()
        picture.see(scenes.READY)
        clock.now += 2
        picture.see_link(dataclasses.replace(picture.link))
        clock.now += 30
        picture.see_link(dataclasses.replace(picture.link, phase=LinkPhase.LOST))
        assert picture.stale == pytest.approx(30)
        assert picture.server_elapsed() == pytest.approx(2)

    def test_nothing_is_stale_before_there_was_a_link(self) -> None:
        assert Picture(scenes.PROFILE, FrozenClock()).stale is None


class TestFeed:
    def test_one_message_for_many_values_and_only_the_newest_state(self) -> None:
        woken: list[int] = []
        feed = Feed(lambda: woken.append(1))
        for port in range(1000):
            feed.on_value(dataclasses.replace(scenes.READY, port=port))
            feed.on_value(LogLines((str(port),), "log"))
        assert woken == [1]
        _, values = feed.take()
        assert [value.port for value in values if value == dataclasses.replace(scenes.READY, port=999)] == [999]
        assert len(values) == 1001
        feed.on_value(LogLines(("x",), "log"))
        assert woken == [1, 1]

    def test_from_many_threads_nothing_is_lost(self) -> None:
        feed = Feed(lambda: None)
        lines = LogLines(("x",), "log")

        def talk() -> None:
            for _ in range(500):
                feed.on_value(lines)

        threads = [threading.Thread(target=talk) for _ in range(4)]
        for thread in threads:
            thread.start()
        taken = 0
        while any(thread.is_alive() for thread in threads):
            taken += len(feed.take()[1])
        assert taken + len(feed.take()[1]) == 2000


class TestRun:
    @pytest.mark.parametrize(
        ("ended", "waiting"),
        [
            ((), ["pid 7: python", "ask it to end", "wait", "look again"]),
            (("ask it to end",), ["wait", "look again"]),
            (("ask it to end", "waited for it"), ["wait", "look again"]),
            (("look again",), []),
        ],
    )
    def test_the_first_of_what_waits_is_under_way(self, ended: tuple[str, ...], waiting: list[str]) -> None:
        """A plan also lists what has no end of its own, such as the processes that it means."""
        planned = tuple(map(Step, ("pid 7: python", "ask it to end", "wait", "look again")))
        run = Run("stop", "Stop", 0.0, planned, [StepResult(title, True) for title in ended])
        assert [step.title for step in run.waiting] == waiting
