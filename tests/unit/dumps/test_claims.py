"""Claims beside the dumps are anybody's: what is no claim of a live process is nobody's, and nobody waits for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from remote import processes
from remote.dumps import claims
from remote.processes import Process

LIMIT = 10_000


def me() -> Process:
    found = processes.read(os.getpid())
    assert found is not None
    return found


def mine(**changes: object) -> str:
    return json.dumps({"pid": os.getpid(), "start_ticks": me().start_ticks, "word": "x", **changes})


BAD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": Path.mkdir,
    "nested": lambda path: path.write_bytes(b"[" * 9_000),
    "too large": lambda path: path.write_text(mine(more="x" * LIMIT)),
    "no object": lambda path: path.write_text("[1]"),
    "bytes": lambda path: path.write_bytes(b"\xff\0"),
    "an earlier process": lambda path: path.write_text(mine(start_ticks=1)),
    "no number": lambda path: path.write_text(mine(start_ticks="1")),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_claim_is_nobodys(what: str, tmp_path: Path) -> None:
    (tmp_path / ".loaded").mkdir()
    BAD[what](tmp_path / ".loaded" / f"{os.getpid()}.json")
    assert list(claims.live(str(tmp_path), LIMIT)) == []
    assert claims.of_process(str(tmp_path), me(), LIMIT) == {}


def test_a_claim_is_told_with_its_process(tmp_path: Path) -> None:
    assert list(claims.live(str(tmp_path), LIMIT)) == []
    (tmp_path / ".loaded").mkdir()
    (tmp_path / ".loaded" / f"{os.getpid()}.json").write_text(mine())
    ((process, said),) = claims.live(str(tmp_path), LIMIT)
    assert (process.identity, said["word"]) == (me().identity, "x")
    assert claims.of_process(str(tmp_path), me(), LIMIT)["word"] == "x"


@pytest.mark.parametrize("pid", [-1, 0, 1 << 70, None])
def test_no_pid_is_too_odd(pid: object, tmp_path: Path) -> None:
    (tmp_path / ".loaded").mkdir()
    (tmp_path / ".loaded" / "1.json").write_text(mine(pid=pid))
    assert list(claims.live(str(tmp_path), LIMIT)) == []
