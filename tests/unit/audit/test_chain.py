"""The chained log: what is written fits, what was changed is named, what a crash leaves is told apart from that."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from remote.wire import audit, chain, journal, locks
from remote.wire.audit import AuditError, Entry, Misfit, digest, now


def entry(kind: str = "begin", **data: object) -> Entry:
    return Entry(kind, now(), id="abc", action="server.stop", who="ann@laptop", profile="kimi", data=data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a genesis and five lines."""
    path = tmp_path / "audit" / "kimi.jsonl"
    for number in range(5):
        journal.append(str(path), entry(number=number))
    return path


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines()


def put(log: Path, content: list[bytes]) -> None:
    log.write_bytes(b"".join(line + b"\n" for line in content))


def test_each_line_carries_the_hash_of_the_one_before(log: Path) -> None:
    written = lines(log)
    parsed = [json.loads(line) for line in written]
    assert [one["kind"] for one in parsed] == ["genesis", *["begin"] * 5]
    assert parsed[0]["prev"] == "0" * 64
    assert [one["prev"] for one in parsed[1:]] == [digest(line) for line in written[:-1]]
    report = chain.verify(str(log))
    assert (report.ok, report.lines, report.misfit, report.notes) == (True, 6, None, ())


def changed(content: list[bytes]) -> list[bytes]:
    return [*content[:3], content[3].replace(b"ann@", b"bob@"), *content[4:]]


TAMPERED: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int, str]] = {
    # a changed line is seen where the next one does not follow it
    "changed": (changed, 5, "does not follow"),
    "taken out": (lambda c: [*c[:3], *c[4:]], 4, "does not follow"),
    "put in": (lambda c: [*c[:3], c[1], *c[3:]], 4, "does not follow"),
    "swapped": (lambda c: [*c[:2], c[3], c[2], *c[4:]], 3, "does not follow"),
    "garbage": (lambda c: [*c[:3], b"\xff\x00 nonsense", *c[3:]], 4, "no entry"),
    "emptied": (lambda c: [*c[:3], b"", *c[4:]], 4, "no entry"),
    "the last changed": (lambda c: [*c[:5], c[5].replace(b"ann@", b"bob@")], 6, "it was changed"),
    "the first gone": (lambda c: c[1:], 1, "no beginning"),
    "the end gone": (lambda c: c[:4], 4, "lines after it are gone"),
    "all gone": (lambda c: [], 0, "gone"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_named_by_line(log: Path, name: str) -> None:
    change, number, what = TAMPERED[name]
    put(log, change(lines(log)))
    report = chain.verify(str(log))
    assert not report.ok
    assert report.misfit is not None
    assert (report.misfit.file, report.misfit.line) == (str(log), number)
    assert what in report.misfit.what


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_line_that_a_crash_cut_off_is_no_tampering(log: Path, kept: int) -> None:
    whole = lines(log)
    cut = (whole[5] + b"\n")[:kept]
    log.write_bytes(b"".join(line + b"\n" for line in whole[:5]) + cut)
    (log.parent / "kimi.jsonl.head").write_text(digest(whole[4]))  # noted after the line is on disk
    report = chain.verify(str(log))
    assert report.ok
    assert "has no end" in report.notes[0]
    journal.append(str(log), entry())
    report = chain.verify(str(log))
    assert report.ok, report
    assert "kimi.jsonl:6 was cut off by a crash" in report.notes[0]
    assert [json.loads(line)["kind"] for line in lines(log)[6:]] == ["torn", "begin"]
    log.write_bytes(log.read_bytes().replace(cut, cut + b"x", 1))
    assert not chain.verify(str(log)).ok or kept == 1  # one byte may stand anywhere before it


def test_a_cut_off_first_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"kind":"gen')
    journal.append(str(path), entry())
    assert chain.verify(str(path)).ok


def test_a_log_that_was_taken_away_is_missed_for_ever(log: Path) -> None:
    log.unlink()
    report = chain.verify(str(log))
    assert report.misfit is not None
    assert "the whole log is gone" in report.misfit.what
    journal.append(str(log), entry())
    report = chain.verify(str(log))
    assert report.misfit is not None
    assert "there was a log before it" in report.misfit.what


@pytest.mark.parametrize("left", ["", "garbage", None])
def test_without_the_note_of_the_last_line_it_is_said_that_an_end_would_not_be_missed(
    log: Path, left: str | None
) -> None:
    head = log.parent / "kimi.jsonl.head"
    if left is None:
        head.unlink()
    else:
        head.write_text(left)
    put(log, lines(log)[:4])
    report = chain.verify(str(log))
    assert report.ok
    assert "would not be missed" in report.notes[-1]
    journal.append(str(log), entry())
    assert chain.verify(str(log)).notes == ()


def test_a_lock_that_was_taken_away_is_none(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody cleans up between opening and locking: the next writer would have a lock of its own."""
    head, real = log.parent / "kimi.jsonl.head", locks.take
    removed: list[bool] = []

    def lock(handle: int) -> bool:
        if not removed:
            removed.append(True)
            head.unlink()
            with real_lock_elsewhere():
                assert real(handle)
            return True
        return real(handle)

    @contextlib.contextmanager
    def real_lock_elsewhere() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(locks, "take", real)
            journal.append(str(log), entry())
        yield

    monkeypatch.setattr(locks, "take", lock)
    journal.append(str(log), entry())
    assert chain.verify(str(log)).ok
    assert len(lines(log)) == 8


def test_a_huge_log_is_followed_a_line_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(40):
        journal.append(str(path), entry(number=number, text="x" * 100_000), rotate_at=1 << 20)
    tracemalloc.start()
    report = chain.verify(str(path))
    assert len(chain.last(str(path), 2).entries) == 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (report.ok, report.lines) == (True, 40 + len(report.files))
    assert most < 2 << 20
    monkeypatch.setattr(journal, "LONGEST", 50_000)
    assert "no entry" in (chain.verify(str(path)).misfit or Misfit("", 0, "")).what


def test_the_last_entries_cost_what_they_are(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the log; a line that is none hides none."""
    with log.open("ab") as file:
        file.write(b"not one\n")
    parse = mock.Mock(wraps=audit.parse)
    monkeypatch.setattr(chain, "parse", parse)
    assert [one.data["number"] for one in chain.last(str(log), 2).entries] == [3, 4]
    assert parse.call_count == 3


def test_rotation_keeps_the_chain(tmp_path: Path) -> None:
    path = str(tmp_path / "audit.jsonl")
    for number in range(40):
        journal.append(path, entry(number=number), rotate_at=2000)
    names = journal.files(path)
    assert len(names) > 3
    assert names[-1] == path
    report = chain.verify(path)
    assert (report.ok, report.notes) == (True, ())
    assert [one.data["number"] for one in chain.last(path, 1000).entries if one.kind == "begin"] == list(range(40))
    assert [one.data.get("number") for one in chain.last(path, 3).entries][-1] == 39
    Path(names[0]).unlink()  # an archive put elsewhere
    report = chain.verify(path)
    assert report.ok
    assert "begins after audit.jsonl.1" in report.notes[0]
    Path(names[2]).unlink()
    assert not chain.verify(path).ok


def _write(path: str, writer: int) -> None:
    for number in range(25):
        journal.append(path, entry(writer=writer, number=number), rotate_at=8000)


def test_several_writers_make_one_chain(tmp_path: Path) -> None:
    path = str(tmp_path / "audit.jsonl")
    writers = [multiprocessing.get_context("fork").Process(target=_write, args=(path, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    report = chain.verify(path)
    assert report.ok, report
    found = [one.data for one in chain.last(path, 1000).entries if one.kind == "begin"]
    for number in range(4):
        assert [one["number"] for one in found if one["writer"] == number] == list(range(25))


def test_hostile_text_stays_one_line(log: Path) -> None:
    text = "a\nb\r\x1b[2J\0\u2028\udc80 \U0001f4a5"
    journal.append(str(log), entry(text=text))
    assert len(lines(log)) == 7
    assert log.read_bytes().isascii()
    assert chain.last(str(log), 1).entries[0].data["text"] == text
    assert chain.verify(str(log)).ok


def test_modes(log: Path) -> None:
    assert log.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in log.parent.iterdir()} == {0o600}
    log.chmod(0o644)  # restored from a backup
    journal.append(str(log), entry())
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "head link"])
def test_what_somebody_put_in_its_place_is_not_written_to(tmp_path: Path, kind: str) -> None:
    path, victim = tmp_path / "audit.jsonl", tmp_path / "victim"
    victim.write_text("precious")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "audit.jsonl.head").symlink_to(victim)
    with pytest.raises(AuditError, match=r"audit\.jsonl"):
        journal.append(str(path), entry())
    assert victim.read_text() == "precious"


def test_a_full_disk_leaves_no_half_line(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = log.read_bytes()
    monkeypatch.setattr(os, "write", _half_then_full(os.write))
    with pytest.raises(AuditError, match="No space left"):
        journal.append(str(log), entry())
    monkeypatch.undo()
    assert log.read_bytes() == before
    journal.append(str(log), entry())
    assert chain.verify(str(log)).ok


def _half_then_full(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    calls = 0

    def half(handle: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return write(handle, bytes(data)[: len(data) // 2])
        raise OSError(28, "No space left on device")

    return half


def test_who_froze_with_the_lock_in_hand_holds_nobody_up(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_WAIT", 0.1)
    with journal._locked(str(log)):
        began = time.monotonic()
        with pytest.raises(AuditError, match="locked"):
            journal.append(str(log), entry())
        assert time.monotonic() - began < 30


def test_it_costs_little(tmp_path: Path) -> None:
    path = str(tmp_path / "audit.jsonl")
    data: dict[str, object] = {"steps": [{"title": "Wait", "ok": True, "detail": "x" * 200}] * 10}
    journal.append(path, entry("end", **data))
    took = []
    for _ in range(20):
        began = time.process_time()  # however slow the disk
        journal.append(path, entry("end", **data))
        journal.append(path, entry("end", **data))
        took.append(time.process_time() - began)
    assert sorted(took)[len(took) // 2] < 0.5  # it takes 1 ms
