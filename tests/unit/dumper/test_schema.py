"""docs/dump-v3.schema.json: what it refuses, and that docs/format.md tells of the same keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from remote.dumper import loaded
from remote.dumper.problem import Problem
from remote.dumper.stats import Stats
from tests.dumpfolder import dump
from tests.schema import DOCS, SCHEMA, problems, problems_in

from .making import ORIGIN, desk, part, write

FORMAT = (DOCS / "format.md").read_text()
DEFINED = SCHEMA["$defs"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One of each file that the dumper writes."""
    place = desk(tmp_path)
    assert write(place) is None
    assert write(place, part(4, problem=Problem("odd chunk"))) is not None
    loaded.record(
        str(tmp_path), ORIGIN, {__file__: loaded.sha256(__file__)}, 5.0, Problem("no such layer", "it has four")
    )
    Stats(str(tmp_path)).write()
    return tmp_path


FILES = ("req_0/meta.json", "req_1/meta.json", "req_1/error", ".loaded/*.json", ".stats/*.json")


def test_every_key_is_asked_for_and_no_other_is_taken(folder: Path) -> None:
    for pattern in FILES:
        (path,) = folder.glob(pattern)
        value = json.loads(path.read_text())
        complete = (path.parent / "done").exists()
        assert not problems(path, value, complete)
        assert problems(path, {**value, "more": 1}, complete), path
        for key in value:
            assert problems(path, {name: value[name] for name in value if name != key}, complete), f"{path} {key}"
            assert problems(path, {**value, key: [None]}, complete), f"{path} {key}"


WRONG: dict[str, Any] = {
    "no rows": {"num_tokens": 0},
    "rows missing": {"first_position": 1},
    "no columns": {"hidden_size": None},
    "a truth for a number": {"counter": True},
    "another version": {"schema": 2},
    "a type of no tensor": {"dtype": "int8"},
    "a hash that is none": {"ids_sha256": "abc"},
    "ids that nobody knows": {"ids_sha256": None},
    "no files": {"files": {}},
    "a file of another name": {"files": {"aux_00.pt": {}}},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_complete_dump_that_is_not(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "req_0" / "meta.json"
    meta = json.loads(path.read_text())
    if change.get("files"):
        change = {"files": {**meta["files"], **change["files"]}}
    assert problems(path, {**meta, **change})


def test_an_error_does_not_pass_for_a_dump_nor_a_dump_for_an_error(folder: Path) -> None:
    for name, complete in (("req_0", False), ("req_1", True)):
        path = folder / name / "meta.json"
        assert problems(path, json.loads(path.read_text()), complete)


def test_the_dumps_that_readers_are_tested_with_are_of_this_version(tmp_path: Path) -> None:
    dump(tmp_path, 5)
    assert problems_in(tmp_path) == []


def test_the_table_of_keys_is_the_schema() -> None:
    table = FORMAT.partition("## meta.json")[2].partition("\n## ")[0]
    cells = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    told = [key for names, _ in cells for key in re.findall(r"`(\w+)`", names)]
    known = {*DEFINED["request"]["properties"], *DEFINED["complete"]["properties"]}
    assert sorted(told) == sorted(known)
    assert told[:6] == ["num_tokens", "hidden_size", "num_aux_layers", "captured_at_layers", "counter", "timestamp"]
    (kinds,) = (kind for names, kind in cells if "`files`" in names)
    assert set(re.findall(r"`(\w+)`", kinds)) == set(DEFINED["file"]["properties"])


@pytest.mark.parametrize("kind", ["loaded", "stats"])
def test_the_files_beside_the_requests_are_told_key_by_key(kind: str) -> None:
    (told,) = (text for text in FORMAT.split("\n\n") if text.startswith(f"`.{kind}/<pid>.json`"))
    assert set(re.findall(r"`(\w+)`", told)) == set(DEFINED[kind]["properties"])
