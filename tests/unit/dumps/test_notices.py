"""Names that come and go, whether the kernel tells of them or not, and without a listing where it does."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
from pathlib import Path

import pytest

from remote.dumps import notices
from remote.dumps.catalog import Catalog
from remote.dumps.folder import Changes, Folder, Replaced
from tests.dumpfolder import dump


def nothing(_: str) -> None:
    """A system that has no notices to give."""


class Silent:
    """Of a file system on which others make changes: there are no notices of those."""

    def __init__(self, _: str) -> None: ...

    def take(self) -> dict[str, bool]:
        return {}


class Seen:
    """What the changes add up to."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(str(path))
        self.names: set[str] = set()

    def look(self) -> Changes:
        self.folder._due = 0.0
        changes = self.folder.changes()
        assert not changes.added & self.names
        assert changes.removed <= self.names
        self.names = (self.names | changes.added) - changes.removed
        return changes


@pytest.mark.parametrize("of", [notices.of, nothing, Silent], ids=["told", "not told", "told of nothing"])
def test_all_changes_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: object) -> None:
    monkeypatch.setattr(notices, "of", of)
    dice, seen = random.Random(7), Seen(tmp_path)
    for _ in range(200):
        for _ in range(dice.randrange(4)):
            place = tmp_path / f"req_{dice.randrange(12)}"
            if not place.exists():
                place.mkdir()
            elif dice.random() < 0.5:
                place.rmdir()
            else:
                place.replace(tmp_path / f".{place.name}")
        seen.look()
        assert seen.look() == (set(), set(), True)
        assert seen.names == {place.name for place in tmp_path.iterdir()}


def test_what_is_told_needs_no_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(tmp_path)
    (tmp_path / "req_0").mkdir()
    seen.look()
    monkeypatch.delattr(os, "listdir")
    for number in range(1, 300):
        (tmp_path / f"req_{number}").mkdir()
        (tmp_path / f"req_{number - 1}").rmdir()
        assert seen.look() == ({f"req_{number}"}, {f"req_{number - 1}"}, True)
    monkeypatch.undo()


def test_the_newest_are_known_without_a_look_at_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer takes the newest, the oldest, or thousands at once."""
    dice = random.Random(3)
    for number in range(4000):
        (tmp_path / f"req_{number}").mkdir()
    catalog, there = Catalog(str(tmp_path), 20), set(range(4000))
    catalog.refresh()
    monkeypatch.delattr(os, "listdir")
    for number in range(4000, 4006):
        dump(tmp_path, number)
        gone = {max(there), min(there), *(dice.sample(sorted(there), 1500) if number == 4003 else ())}
        for each in gone:
            shutil.rmtree(tmp_path / f"req_{each}")
        there = (there | {number}) - gone
        catalog.refresh()
        assert list(catalog.rows) == sorted(there, reverse=True)[:1000]
    monkeypatch.undo()


def test_notices_that_were_lost_are_made_up_for(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.look()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    (tmp_path / "req_0").mkdir()
    for _ in range(most // 2 + 1):
        (tmp_path / "x").touch()
        (tmp_path / "x").unlink()
    (tmp_path / "req_1").mkdir()
    assert seen.look().added == {"req_0", "req_1"}
    (tmp_path / "req_2").mkdir()
    assert seen.look().added == {"req_2"}


def test_what_nobody_told_is_found_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of others in the same moment as one that was told."""
    seen = Seen(tmp_path)
    seen.look()
    assert seen.folder._notices is not None
    (tmp_path / "req_0").mkdir()
    (tmp_path / "req_1").mkdir()
    monkeypatch.setattr(seen.folder._notices, "take", lambda: {"req_0": True})
    assert seen.look().added == {"req_0"}
    monkeypatch.setattr(seen.folder._notices, "take", dict)
    assert not seen.look().added
    seen.folder._again = 0.0
    assert seen.look().added == {"req_1"}


def test_a_folder_in_its_place_is_another_one(tmp_path: Path) -> None:
    place = tmp_path / "dumps"
    place.mkdir()
    seen = Seen(place)
    seen.look()
    place.rename(tmp_path / "old")
    place.mkdir()
    with pytest.raises(Replaced):
        seen.look()


def test_names_that_are_no_text(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.look()
    name = os.fsdecode(b"req_\xff\n")
    (tmp_path / name).mkdir()
    assert seen.look().added == {name}


def test_no_handle_is_left(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")
    before = len(list(handles.iterdir()))
    for _ in range(50):
        Seen(tmp_path).look()
        assert notices.of(str(tmp_path / "gone")) is None
    assert len(list(handles.iterdir())) <= before + 1


def test_where_the_kernel_gives_no_more_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def inotify_init1(self, _: int) -> int:
            ctypes.set_errno(24)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Full())
    seen = Seen(tmp_path)
    (tmp_path / "req_0").mkdir()
    assert seen.look().added == {"req_0"}
    assert seen.folder._notices is None
    (tmp_path / "req_1").mkdir()
    assert seen.look().added == {"req_1"}
