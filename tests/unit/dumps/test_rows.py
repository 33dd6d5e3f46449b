"""One dump at a glance: its state from names, sizes and metadata."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.dumps import meta, rows
from remote.wire.dumps import DumpRow, DumpState
from tests import dumpfolder, torchfile
from tests.dumpfolder import RECORD, dump, forerunner


def row_of(folder: Path, name: str) -> DumpRow:
    row = rows.examine(str(folder), name)
    assert row is not None
    return row


def test_the_records_dump_is_complete(tmp_path: Path) -> None:  # D01
    path = tmp_path / "req_8"
    path.mkdir()
    for i, name in enumerate(("aux_0", "aux_1", "aux_2", "final")):
        torchfile.write(path / f"{name}.pt", dumpfolder.payload(10, 7168, i), (10, 7168))
        assert (path / f"{name}.pt").stat().st_size == 144_859
    (path / "meta.json").write_text(json.dumps(RECORD))
    (path / "done").touch()
    row = row_of(tmp_path, "req_8")
    size = 4 * 144_859 + len(json.dumps(RECORD))
    assert row == DumpRow(8, DumpState.COMPLETE, 1771958433.3917341, 10, size, (3, 31, 59))


def test_a_dump_of_version_3_is_complete(tmp_path: Path) -> None:
    dump(tmp_path, 5)
    row = row_of(tmp_path, "req_5")
    assert (row.state, row.tokens, row.rid, row.note) == (DumpState.COMPLETE, 10, "rid-5", "")


def halve(name: str) -> Callable[[Path], None]:
    return lambda path: os.truncate(path / name, (path / name).stat().st_size // 2)


def link(path: Path) -> None:
    (path / "meta.json").rename(path / "m")
    (path / "meta.json").symlink_to("m")


def view(path: Path) -> None:
    torchfile.write(path / "aux_0.pt", bytes(16 * 160), (10, 8))


CORRUPT: list[tuple[str, Callable[[Path], Any], str]] = [
    ("a file cut in half (D03)", halve("aux_1.pt"), "aux_1.pt"),
    ("a file that is missing", lambda path: (path / "final.pt").unlink(), "final.pt is missing"),
    ("a view of more (D06)", view, "aux_0.pt"),
    ("no metadata", lambda path: (path / "meta.json").unlink(), "meta.json is missing"),
    ("metadata cut in half", halve("meta.json"), "meta.json is not JSON"),
    ("metadata that is a list", lambda path: (path / "meta.json").write_text("[]"), "not an object"),
    ("metadata with NaN", lambda path: (path / "meta.json").write_text('{"timestamp": NaN}'), "not JSON"),
    ("deep metadata", lambda path: (path / "meta.json").write_text("[" * 200_000), "not JSON"),
    ("metadata without end", lambda path: os.truncate(path / "meta.json", 2 << 20), "larger than"),
    ("a link as metadata", link, "can't be read"),
]


@pytest.mark.parametrize("make", [dump, forerunner])
@pytest.mark.parametrize(("damage", "words"), [case[1:] for case in CORRUPT], ids=[case[0] for case in CORRUPT])
def test_damage_is_corrupt_and_named(
    tmp_path: Path, make: Callable[..., Path], damage: Callable[[Path], Any], words: str
) -> None:
    damage(make(tmp_path, 1, columns=512))
    row = row_of(tmp_path, "req_1")
    assert row.state is DumpState.CORRUPT
    assert words in row.note


@pytest.mark.parametrize("key", list(RECORD))
@pytest.mark.parametrize("value", [None, "ten", -5, 1e300, True, [1, "a"], {}])
def test_no_value_of_a_key_gets_by(tmp_path: Path, key: str, value: Any) -> None:
    forerunner(tmp_path, 1, **{key: value})
    row = row_of(tmp_path, "req_1")
    assert row.state is DumpState.CORRUPT
    assert key in row.note


@pytest.mark.parametrize(
    "files", [[], "x", {"aux_0.pt": {}}, {"aux_0.pt": 7}, {"final.pt": {"bytes": -1, "payload": "a"}}]
)
def test_records_of_files_that_are_none_are_problems(tmp_path: Path, files: Any) -> None:
    path = dump(tmp_path, 1, files=files)
    assert any("files" in problem for problem in meta.read(str(path)).problems)


def test_a_newer_schema_is_said(tmp_path: Path) -> None:
    dump(tmp_path, 1, schema=4)
    assert "schema 4 is newer" in row_of(tmp_path, "req_1").note


def test_without_done_it_is_writing_then_partial(tmp_path: Path) -> None:  # D04
    dump(tmp_path, 1, done=False)
    row = row_of(tmp_path, "req_1")
    assert rows.settle(row, 59).state is DumpState.WRITING
    assert rows.settle(row, 61).state is DumpState.PARTIAL


def test_a_staged_dump_is_writing_while_its_writer_lives(tmp_path: Path) -> None:
    dump(tmp_path, 7, name=f".req_7.{os.getpid()}", done=False)
    assert row_of(tmp_path, f".req_7.{os.getpid()}").state is DumpState.WRITING
    dump(tmp_path, 8, name=".req_8.99999999", done=False)
    row = row_of(tmp_path, ".req_8.99999999")
    assert (row.number, row.state) == (8, DumpState.PARTIAL)
    assert "pid 99999999" in row.note


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b'{"cause": "no room", "detail": "234 MB needed"}', "no room: 234 MB needed"),
        (b"\x1b[31m\xff", "\x1b[31m�"),
        (b"[1]", "[1]"),
    ],
)
def test_an_error_says_its_cause(tmp_path: Path, content: bytes, note: str) -> None:
    (tmp_path / "req_1").mkdir()
    (tmp_path / "req_1" / "error").write_bytes(content)
    row = row_of(tmp_path, "req_1")
    assert (row.state, row.note) == (DumpState.ERROR, note)


def test_what_is_no_dump_has_no_row(tmp_path: Path) -> None:
    (tmp_path / "req_5").write_text("a file")
    (tmp_path / "req_6").symlink_to(tmp_path)
    (tmp_path / "req_7").symlink_to("req_7")
    assert [rows.examine(str(tmp_path), f"req_{n}") for n in (5, 6, 7)] == [None] * 3
    assert row_of(tmp_path, "req_8").state is DumpState.GONE


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("req_0", 0), ("req_100000", 100_000), (".req_7.4711", 7),
        ("req_foo", None), ("req_-1", None), ("req_007", None), ("req_", None), ("req_1.5", None), ("req_٣", None),
        ("req_1\n", None), (".req_7", None), ("req_7.1", None), (".counter", None), ("req_" + "9" * 30, None),
    ],
)  # fmt: skip
def test_numbers_of_names(name: str, number: int | None) -> None:
    assert rows.number_of(name) == number


def test_a_crowded_directory_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = dump(tmp_path, 1)
    for i in range(1200):
        (path / f"x{i}").touch()
    row = row_of(tmp_path, "req_1")
    assert row.state is DumpState.CORRUPT
    assert "more than" in row.note


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be kept out")
def test_an_unreadable_directory_is_said(tmp_path: Path) -> None:
    dump(tmp_path, 9).chmod(0)
    for parent in tmp_path.parents[:3]:
        parent.chmod(0o755)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        row = rows.examine(str(tmp_path), "req_9")
        os._exit(0 if row and row.state is DumpState.CORRUPT and row.note == "can't be read: Permission denied" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_time_is_the_last_change_until_it_is_complete(tmp_path: Path) -> None:
    path = dump(tmp_path, 1, done=False)
    for entry in (*path.iterdir(), path):
        os.utime(entry, (1000, 1000))
    assert row_of(tmp_path, "req_1").at == 1000
    (path / "done").touch()
    assert abs(row_of(tmp_path, "req_1").at - time.time()) < 10
