"""Which requests the other ranks write: what a canary names, for as long as it can be running."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.dumper.selection import Selection


def takes(selection: Selection, rid: str) -> bool:
    segment: Any = SimpleNamespace(rid=rid)
    part: Any = SimpleNamespace(tensors={})
    return selection.any() and selection.takes(segment, part)


def test_what_is_named_is_taken(tmp_path: Path) -> None:
    selection = Selection(str(tmp_path))
    assert not selection.any()
    (tmp_path / ".canary").write_text("one\ntwo\n")
    assert takes(selection, "two")
    assert not takes(selection, "three")
    (tmp_path / ".canary").unlink()
    assert not takes(selection, "two")


@pytest.mark.parametrize(("age", "counts"), [(0, True), (500, True), (700, False), (10**7, False), (-3600, True)])
def test_what_a_killed_canary_left_is_forgotten(tmp_path: Path, age: float, counts: bool) -> None:
    file = tmp_path / ".canary"
    file.write_text("one\n")
    at = time.time() - age
    os.utime(file, (at, at))
    assert takes(Selection(str(tmp_path)), "one") is counts
