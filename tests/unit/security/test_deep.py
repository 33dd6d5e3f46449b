"""JSON that is nested deeper than Python reads, from wherever it comes, is as JSON that is none."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.dumper import loaded
from remote.dumps import meta
from remote.patch.store import Store
from remote.server import model
from remote.server.http import Answer
from remote.wire import frames
from remote.wire.codec import decode
from remote.wire.errors import WireError
from remote.wire.plan import Plan

DEEP = b"[" * 100_000


def _frame(folder: Path) -> bool:
    with pytest.raises(WireError, match="not a frame"):
        frames.parse(DEEP)
    return True


def _weights(folder: Path) -> bool:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(DEEP)) + DEEP)
    return model._problem(str(folder / "model.safetensors")) == "has a damaged header"


def _config(folder: Path) -> bool:
    (folder / "config.json").write_bytes(DEEP)
    return model.config(str(folder)) is None


def _patch_record(folder: Path) -> bool:
    (folder / "patches").mkdir()
    (folder / "patches" / "0.json").write_bytes(DEEP)
    return Store(str(folder)).records() == []


def _claim(folder: Path) -> bool:
    (folder / ".loaded").mkdir()
    path = folder / ".loaded" / f"{os.getpid()}.json"
    path.write_bytes(DEEP)
    loaded.forget_dead(str(folder))
    return path.exists()


def _meta(folder: Path) -> bool:
    (folder / "meta.json").write_bytes(DEEP)
    return meta.read(str(folder)).problems == ("meta.json is not JSON",)


def _value_of_any_type(folder: Path) -> bool:
    """Deep enough to be read, and too deep for what takes it apart by recursion."""
    deep: Any = {}
    for _ in range(400):
        deep = {"a": [deep]}
    with pytest.raises(WireError, match=r"Plan\.basis.*nested deeper"):
        decode(Plan, {"action": "x", "title": "x", "needed": True, "basis": deep})
    return True


READERS: dict[str, Callable[[Path], bool]] = {
    "frame": _frame,
    "value of any type": _value_of_any_type,
    "header of weights": _weights,
    "config of a model": _config,
    "answer of the server": lambda folder: Answer(status=200, body=DEEP).json is None,
    "record of a patch": _patch_record,
    "claim of a process": _claim,
    "meta.json": _meta,
}


@pytest.mark.parametrize("what", READERS)
def test_deep_json_is_no_json(what: str, tmp_path: Path) -> None:
    assert READERS[what](tmp_path)
