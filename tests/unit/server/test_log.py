"""The log: cut into lines, its progress and causes read, followed through everything that happens to files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.server import causes, log, progress, record
from remote.server.lines import LONGEST, Splitter
from remote.wire.server import LoadProgress, LogLines
from remote.wire.target import Target
from tests.living import PATIENCE
from tests.unit.server.conftest import until

TARGET = Target("/venv/bin/python", "/m", port=18999)
BAR = "Loading safetensors checkpoint shards:  34% Completed | 55/163 [00:17<00:35,  3.02it/s]"


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\r\nc"], ["a", "b"]),
        ([b"a", b"b\n"], ["ab"]),
        ([b"\r 1%\r 2%\r 3%\n"], [" 3%"]),
        ([b"\r 1%\r 2%", b"\r 3%"], [" 1%", " 2%"]),
        ([b"100%\r\n"], ["100%"]),
        ([b"a\r", b"\nb\n"], ["a", "b"]),
        ([b"\n\n"], ["", ""]),
        ([b"\xff\x00[/x]\x1b[31m\n"], ["\ufffd\x00[/x]\x1b[31m"]),
        ([b"x" * 10_000_000, b"\nnext\n"], ["x" * LONGEST + " … [cut: 10000000 bytes]", "next"]),
    ],
)
def test_bytes_become_lines(chunks: list[bytes], lines: list[str]) -> None:
    splitter = Splitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines


@pytest.mark.parametrize(
    ("line", "load"),
    [
        (BAR, LoadProgress("loading weights", 34.0, 55, 163, 35.0)),
        (
            "Multi-thread loading shards:  50% Completed | 4/8 [00:02<00:02, 1.9it/s]",
            LoadProgress("loading weights", 50.0, 4, 8, 2.0),
        ),
        (
            "Loading safetensors checkpoint shards:  50% Completed | 80/160 [1:00:40<?, ?it/s]",
            LoadProgress("loading weights", 50.0, 80, 160, 3640.0),
        ),
        (
            "Capturing batches (bs=4 avail_mem=22.10 GB):  30%|███       | 3/10 [00:01<00:02,  2.9it/s]",
            LoadProgress("capturing graphs", 30.0, 3, 10, 2.0),
        ),
        ("[2026-11-30 02:00:00 TP0] Load weight begin. avail mem=94.20 GB", LoadProgress("loading weights")),
        (
            "[2026-11-30 02:00:00] Load weight end. elapsed=0.04 s, type=X",
            LoadProgress("weights loaded, allocating the KV cache"),
        ),
        ("nothing of the kind: 12% of [/foo]", LoadProgress("importing SGLang")),
    ],
)
def test_progress_is_read(line: str, load: LoadProgress) -> None:
    assert progress.load([line]) == load


ODD_LINES = {
    "blanks": " " * LONGEST,
    "percents": "1% " * (LONGEST // 3),
    "bars": "1% 1/2 [" * (LONGEST // 8),
    "fractions": " 1%" + "1/" * (LONGEST // 2),
    "digits": f" 1% 1/2 [{'9' * LONGEST}<{'9' * LONGEST}",
    "batches": "Prefill batch #new-token: 1" * (LONGEST // 27),
    "no such day": "[2026-13-45 99:99:99] Prefill batch #new-token: 1, input throughput (token/s): 1.2.3",
    "dots": "a." * (LONGEST // 2) + "Erro",
}


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES.keys())
def test_an_odd_line_takes_no_time(line: str) -> None:
    began = time.thread_time()
    progress.load([line])
    progress.prefill([line])
    progress.queues([line])
    progress.load_seconds([line + progress.READY], 0.0)
    causes.find([line])
    assert time.thread_time() - began < 2


def test_the_last_word_on_progress_counts() -> None:
    assert progress.load([BAR, "Load weight end.", "chatter"]).stage == "weights loaded, allocating the KV cache"


def test_throughput_and_queues_are_read() -> None:
    lines = [
        "[2026-11-30 02:14:17 TP0] Prefill batch, #new-seq: 1, #new-token: 10, #cached-token: 0, token usage: 0.00, "
        "#running-req: 2, #queue-req: 1, input throughput (token/s): 6.02",
        "[2026-11-30 02:14:18 TP0] Decode batch, #running-req: 3, #token: 9, #queue-req: 4",
    ]
    prefill = progress.prefill(lines)
    assert prefill is not None
    assert (prefill.tokens_per_s, time.localtime(prefill.at)[3:6]) == (6.02, (2, 14, 17))
    assert progress.queues(lines) == (3, 4)
    assert progress.prefill(["x"]) is None


@pytest.fixture
def path(home: Path) -> Path:
    return Path(record.log_path(TARGET.port))


def test_the_end_is_read_however_long_the_log_is(path: Path) -> None:
    assert log.tail(TARGET, 5) == LogLines((), str(path), note="no log: No such file or directory")
    path.write_bytes(b"".join(b"line %d\n" % i for i in range(400_000)) + b"unfinished")
    began = time.thread_time()  # the machine may be busy with others
    found = log.tail(TARGET, 3)
    assert found.lines == ("line 399998", "line 399999", "unfinished")
    assert time.thread_time() - began < 0.3
    assert log.tail(TARGET, 0).lines == ()
    assert len(log.tail(TARGET, 1_000_000).lines) == log.MOST_LINES


def test_our_own_questions_are_left_out(path: Path) -> None:
    path.write_text('a\nINFO: 127.0.0.1:1 - "GET /health HTTP/1.0" 200 OK\nINFO: 1 - "GET /health HTTP/1.0" 503\nb\n')
    assert log.tail(TARGET, 9).lines == ("a", 'INFO: 1 - "GET /health HTTP/1.0" 503', "b")


def place_of(path: Path) -> str:
    """Where one who has seen all that is there would go on."""
    follower = log.Follower(str(path))
    told = follower.begin(1000)
    follower.close()
    return told.place


def append(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def replace(path: Path) -> None:
    path.rename(f"{path}.1")
    path.write_text("new\n")


def rewrite(path: Path) -> None:
    path.write_text("other text, longer than what was there before\nand more\n")


MEANWHILE: dict[str, tuple[Callable[[Path], None], LogLines]] = {
    "nothing": (lambda path: None, LogLines((), "")),
    "the end of a line": (lambda path: append(path, "ee"), LogLines(("three",), "")),
    "some lines": (lambda path: append(path, "ee", "four"), LogLines(("three", "four"), "")),
    "as many as are asked for": (lambda path: append(path, "ee", *range(4)), LogLines(("three", *"0123"), "")),
    "more": (lambda path: append(path, *range(1000)), LogLines(("995", "996", "997", "998", "999"), "", skipped=995)),
    "our own questions": (lambda path: append(path, "", '"GET /health HTTP/1.1" 200'), LogLines(("thr",), "")),
    "another log": (replace, LogLines(("new",), "", log.ANOTHER)),
    "rewritten": (rewrite, LogLines(("other text, longer than what was there before", "and more"), "", log.ANOTHER)),
    "truncated": (lambda path: os.truncate(path, 3), LogLines((), "", log.ANOTHER)),
    "deleted": (Path.unlink, LogLines((), "", "there is no log yet")),
    "too much": (lambda path: append(path, "x" * 2000, "end"), LogLines(("end",), "", log.TOO_MUCH)),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_a_later_follower_goes_on_behind_the_last_line(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came meanwhile is sent once, and what is left out of it is counted."""
    happens, expected = MEANWHILE[name]
    path.write_text("one\ntwo\nthr")
    place = place_of(path)
    happens(path)
    if name == "too much":
        monkeypatch.setattr(log, "BEHIND", 100)
        monkeypatch.setattr(log, "TAIL_BYTES", 1900)
    follower = log.Follower(str(path))
    told = follower.begin(5, place)
    assert (told.lines, told.note, told.skipped) == (expected.lines, expected.note, expected.skipped)
    if path.exists():
        append(path, "later")
        assert follower.look().lines[-1].endswith("later")
    follower.close()


@pytest.mark.parametrize("place", ["x", "1:2", "1:-5:0", f"1:{2**70}:0", "1:2:3\n", "٣:1:1"])
def test_a_place_that_is_none_begins_at_the_beginning(path: Path, place: str) -> None:
    path.write_text("one\n")
    follower = log.Follower(str(path))
    told = follower.begin(5, place)
    follower.close()
    assert told.lines == ("one",)
    assert told.note == log.ANOTHER


class Following:
    def __init__(self, lines: int = 100) -> None:
        self.events: list[LogLines] = []
        self.cancelled = threading.Event()
        self.thread = threading.Thread(target=log.follow, args=(TARGET, lines, self.events.append, self.cancelled))
        self.thread.start()
        until(lambda: self.events)

    @property
    def lines(self) -> list[str]:
        return [line for event in list(self.events) for line in event.lines]

    @property
    def notes(self) -> list[str]:
        return [event.note for event in list(self.events) if event.note]

    def stop(self) -> None:
        self.cancelled.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture
def following(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Following]:
    monkeypatch.setattr(log, "QUIET", PATIENCE)  # however slow the machine
    path.write_text("one\ntwo\nthr")
    made = Following()
    yield made
    made.stop()


def test_following_sends_the_end_and_then_what_comes(path: Path, following: Following) -> None:
    assert following.events[0].lines == ("one", "two")
    with path.open("a") as file:
        file.write("ee\nfour\n")
    until(lambda: following.lines == ["one", "two", "three", "four"])
    assert following.notes == []


def test_following_goes_on_after_truncation(path: Path, following: Following) -> None:
    os.truncate(path, 0)
    with path.open("a") as file:
        file.write("new\n")
    until(lambda: "new" in following.lines)
    assert "truncated" in following.notes[0]


def test_a_log_rewritten_beyond_the_old_end_is_noticed(path: Path, following: Following) -> None:
    path.write_text("other text, longer than what was there\nand more\n")
    until(lambda: "and more" in following.lines)
    assert "other text, longer than what was there" in following.lines
    assert "truncated" in following.notes[0]


def test_following_goes_on_after_rotation_and_loses_nothing(path: Path, following: Following) -> None:
    with path.open("a") as file:
        path.rename(f"{path}.1")
        path.write_text("new\n")
        file.write("ee\nlast of the old\n")
        file.flush()
        until(lambda: "new" in following.lines)
    assert following.lines == ["one", "two", "three", "last of the old", "new"]
    assert "replaced" in following.notes[-1]


def test_following_goes_on_after_deletion(path: Path, following: Following) -> None:
    with path.open("a") as file:
        path.unlink()
        until(lambda: following.notes)
        file.write("ee\nstill writing\n")
        file.flush()
        until(lambda: "still writing" in following.lines)
    path.write_text("new\n")
    until(lambda: "new" in following.lines)
    assert "deleted" in following.notes[0]
    assert "replaced" in following.notes[1]


def test_a_log_that_comes_late_is_followed(path: Path) -> None:
    following = Following()
    assert following.events[0].note == "there is no log yet"
    path.write_text("first\n")
    until(lambda: following.lines == ["first"])
    following.stop()


def test_a_flood_is_cut_and_counted(path: Path, following: Following) -> None:
    with path.open("a") as file:
        file.write("\n" + "x\n" * 50_000 + "last\n")
    until(lambda: "last" in following.lines)
    skipped = sum(event.skipped for event in following.events)
    assert max(len(event.lines) for event in following.events) <= log.LINES_A_TICK
    assert len(following.lines) + skipped == 50_004


def test_a_line_without_an_end_is_shown_after_a_while(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    assert following.lines == ["one", "two"]
    monkeypatch.setattr(log, "QUIET", 0.5)
    until(lambda: "thr" in following.lines)
