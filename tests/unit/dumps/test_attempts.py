"""A request that was sent again under its rid: which dump is accepted, and what that costs."""  # D15

from __future__ import annotations

import dataclasses
import random
import shutil
import threading
import time
from pathlib import Path

import pytest

from remote.dumps import attempts, detail, verify, watch
from remote.dumps import catalog as catalogs
from remote.dumps.catalog import Catalog
from remote.wire.dumps import DumpRow, DumpState, Level, VerifyProgress, VerifyResult
from tests.dumpfolder import dump

STATES = {"c": DumpState.COMPLETE, "e": DumpState.ERROR, "x": DumpState.CORRUPT}


def attempt(folder: Path, number: int, kind: str, rid: str | None = "again", tokens: int = 10) -> Path:
    """A dump of this rid: complete, an error, or with a file cut short."""
    path = dump(folder, number, ids=range(1, 1 + tokens), rid=rid, done=kind != "e")
    if kind == "e":
        (path / "error").write_text('{"cause": "no room", "detail": ""}')
    if kind == "x":
        (path / "aux_1.pt").write_bytes(b"cut short")
    return path


def listed(folder: Path, last: int = 1000) -> dict[int, DumpRow]:
    return {row.number: row for row in watch.newest(str(folder), last).rows}


@pytest.mark.parametrize(
    ("kinds", "by"),
    [
        ("c", [None]),
        ("cc", [1, None]),
        ("ccc", [1, 2, None]),
        ("ec", [1, None]),
        ("xc", [1, None]),
        ("ce", [None, None]),
        ("cex", [None, None, None]),
        ("cexc", [3, 3, 3, None]),
        ("ee", [None, None]),
    ],
)
def test_the_next_complete_one_supersedes(tmp_path: Path, kinds: str, by: list[int | None]) -> None:
    for number, kind in enumerate(kinds):
        attempt(tmp_path, number, kind)
    attempt(tmp_path, 8, "c", rid="another")
    attempt(tmp_path, 9, "c", rid=None)
    rows = listed(tmp_path)
    assert [rows[number].superseded_by for number in range(len(kinds))] == by
    assert [rows[number].state for number in range(len(kinds))] == [STATES[kind] for kind in kinds]
    assert rows[8].superseded_by is rows[9].superseded_by is None
    for number, wanted in enumerate(by):
        shown = detail.show(str(tmp_path), number).row
        assert shown.superseded_by == wanted
        assert ("superseded by req_" in shown.remark) == (wanted is not None)


@pytest.mark.parametrize(
    ("lengths", "by", "longer"),
    [
        ((4, 9), [None, None], [None, 0]),
        ((4, 9, 12), [None] * 3, [None, 0, 0]),
        ((4, 9, 4), [2, None, None], [None, 0, None]),  # retracted, and then sent again
        ((4, 4, 9, 9), [1, None, 3, None], [None, None, 1, 1]),
        ((9, 4), [None, None], [None, None]),  # another prompt: a rid that its client used twice
    ],
)
def test_a_longer_one_supersedes_nothing_and_says_so(
    tmp_path: Path, lengths: tuple[int, ...], by: list[int | None], longer: list[int | None]
) -> None:
    """What a server does that takes a request back: its prompt comes again with what it had generated."""
    for number, length in enumerate(lengths):
        dump(tmp_path, number, rid="long answer", ids=range(2, 2 + length))
    rows = listed(tmp_path)
    shown = [detail.show(str(tmp_path), number).row for number in range(len(lengths))]
    found = verify.verify(
        str(tmp_path), "m", verify.names_of(str(tmp_path), None), Level.STRUCTURE, lambda _: None, threading.Event()
    )
    for one in ([rows[number] for number in range(len(lengths))], shown):
        assert [row.superseded_by for row in one] == by
        assert [row.longer_than for row in one] == longer
        assert [f"longer than req_{at}" in row.remark for row, at in zip(one, longer, strict=True)] == [
            at is not None for at in longer
        ]
    assert found.longer == tuple(number for number, at in enumerate(longer) if at is not None)
    assert found.superseded == tuple(number for number, at in enumerate(by) if at is not None)


def test_kept_up_to_date_it_says_what_a_first_look_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "EXAMINED", 12)
    dice, catalog, number = random.Random(15), Catalog(str(tmp_path), 12), 0
    for _ in range(150):
        there = [path for path in tmp_path.iterdir() if path.is_dir()]
        if there and dice.random() < 0.4:
            shutil.rmtree(dice.choice(there))
        for _ in range(dice.randrange(3)):
            attempt(tmp_path, number, dice.choice("cccex"), dice.choice(["a", "b", None]), dice.choice([10, 10, 7]))
            number += 1
        catalog._folder._due = 0.0
        catalog.refresh()
        assert catalog.rows == listed(tmp_path, 12)


def test_one_more_of_very_many_changes_one_row(tmp_path: Path) -> None:
    """A client that gives every request the same rid."""
    row = DumpRow(0, DumpState.COMPLETE, 1.0, rid="all the same")
    rows = {number: dataclasses.replace(row, number=number) for number in range(5000)}
    known = attempts.Attempts()
    known.update(rows, rows)
    assert [rows[number].superseded_by for number in (0, 4998, 4999)] == [1, 4999, None]
    before = dict(rows)
    rows[5000] = dataclasses.replace(row, number=5000)
    known.update(rows, [5000])
    assert {number for number in rows if rows[number] is not before.get(number)} == {4999, 5000}
    del rows[4999]
    known.update(rows, [4999])
    assert rows[4998].superseded_by == 5000


@pytest.mark.parametrize("rid", ['"', "\\", "\x1b[2J", "é", "\ud800", ""])
def test_any_rid(tmp_path: Path, rid: str) -> None:
    for number in range(2):
        attempt(tmp_path, number, "c", rid=rid)
    assert listed(tmp_path)[0].superseded_by == detail.show(str(tmp_path), 0).row.superseded_by == 1


def test_show_looks_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        attempt(tmp_path, number, "c", rid="again" if number in (0, 4) else f"r{number}")
    row = listed(tmp_path)[0]
    assert attempts.standing(str(tmp_path), row).superseded_by == 4
    monkeypatch.setattr(attempts, "FAR", 3)
    assert attempts.standing(str(tmp_path), row) == attempts.Standing()
    assert attempts.standing(str(tmp_path / "gone"), row) == attempts.Standing()


def test_a_verification_names_the_superseded(tmp_path: Path) -> None:
    for number, kind in enumerate("cxc"):
        attempt(tmp_path, number, kind)
    attempt(tmp_path, 3, "e")
    attempt(tmp_path, 4, "c", rid="another")
    names = verify.names_of(str(tmp_path), None)
    seen: list[VerifyResult] = []

    def emit(progress: VerifyProgress) -> None:
        seen.extend(progress.results)

    found = verify.verify(str(tmp_path), "m", names, Level.STRUCTURE, emit, threading.Event())
    assert found.superseded == (0, 1)
    assert {result.number: result.rid for result in seen} == {**dict.fromkeys(range(4), "again"), 4: "another"}


@pytest.mark.parametrize("kind", "ce")
def test_any_number_of_attempts_comes_and_goes_at_once(tmp_path: Path, kind: str) -> None:
    """A consumer takes several attempts at one request between two looks."""
    paths = [attempt(tmp_path, number, kind) for number in range(5)]
    catalog = Catalog(str(tmp_path), 12)
    catalog.refresh()
    for taken in (paths[1:3], [paths[0], *paths[3:]]):
        for path in taken:
            shutil.rmtree(path)
        catalog._folder._due = 0.0
        catalog.refresh()
        assert catalog.rows == listed(tmp_path)


@pytest.mark.parametrize("state", [DumpState.COMPLETE, DumpState.ERROR])
def test_very_many_attempts_cost_no_more_than_they_are(state: DumpState) -> None:
    rows = {number: DumpRow(number, state, 1.0, rid="all the same") for number in range(20_000)}
    known = attempts.Attempts()
    began = time.process_time()
    known.update(rows, rows)
    gone = list(rows)
    rows.clear()
    known.update(rows, gone)
    assert time.process_time() - began < 20, "in half a second; with the square of them in minutes"


def test_a_very_long_rid_is_told_shortened_and_still_compared(tmp_path: Path) -> None:
    for number, tail in enumerate("aab"):
        attempt(tmp_path, number, "c", rid="x" * 500_000 + tail)
    rows = listed(tmp_path)
    assert [rows[number].superseded_by for number in range(3)] == [1, None, None]
    assert all(len(row.rid or "") < 300 for row in rows.values())
    assert detail.show(str(tmp_path), 0).row.superseded_by == 1
