"""A request is there whole, or as an error, or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from remote.dumper import archive
from remote.dumper.archive import Tensor, Written
from remote.dumper.problem import Problem
from tests.pythons import oldest_and_newest

from .making import recorder, request, states


def read(path: Path, name: str = "meta.json") -> dict[str, Any]:
    value: dict[str, Any] = json.loads((path / name).read_text())
    return value


def only(path: Path) -> Path:
    """The one request there; nothing is left aside."""
    (found,) = (entry for entry in path.iterdir() if entry.name != ".counter")
    return found


def test_a_whole_request(tmp_path: Path) -> None:
    tensors = states(10)
    assert recorder(tmp_path).write(request(tensors=lambda: dict(tensors))) is None
    found = only(tmp_path)
    names = {"aux_0.pt", "aux_1.pt", "aux_2.pt", "final.pt", "input_ids.pt"}
    assert {entry.name for entry in found.iterdir()} == names | {"meta.json", "done"}
    assert (found / "done").stat().st_size == 0
    meta = read(found)
    first_dumps = ["num_tokens", "hidden_size", "num_aux_layers", "captured_at_layers", "counter", "timestamp"]
    assert list(meta)[:6] == first_dumps
    assert [meta[key] for key in first_dumps[:5]] == [10, 8, 3, [1, 2, 3], 0]
    assert (meta["schema"], meta["eagle_layer_ids"], meta["dtype"], meta["rid"]) == (3, [0, 1, 2], "float32", "r")
    assert (meta["first_position"], meta["last_position"]) == (0, 9)
    assert meta["ids_sha256"] == hashlib.sha256(tensors["input_ids"].data).hexdigest()
    assert set(meta["files"]) == names
    for name, record in meta["files"].items():
        tensor = tensors[name.removesuffix(".pt")]
        assert record == {
            "bytes": (found / name).stat().st_size,
            "payload": tensor.data.nbytes,
            "crc32": zlib.crc32(tensor.data),
            "shape": list(tensor.shape),
            "dtype": tensor.dtype,
        }


def test_an_error_says_why_and_whose(tmp_path: Path) -> None:
    ids = {"input_ids": states(4)["input_ids"]}
    problem = Problem("it was not to be", "four rows")
    assert recorder(tmp_path).write(request(4, problem=problem, tensors=lambda: ids)) == problem
    found = only(tmp_path)
    assert {entry.name for entry in found.iterdir()} == {"meta.json", "error"}
    assert read(found, "error") == {"cause": "it was not to be", "detail": "four rows"}
    meta = read(found)
    assert (meta["rid"], meta["counter"], meta["num_tokens"]) == ("r", 0, 4)
    assert meta["ids_sha256"] == hashlib.sha256(ids["input_ids"].data).hexdigest()


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.dumper.room._free", lambda folder: (100_000, 50_000))
    problem = recorder(tmp_path).write(request())
    assert problem is not None
    assert problem.cause == "no room where the dumps are written"
    assert "100,000 free" in problem.detail
    assert {entry.name for entry in only(tmp_path).iterdir()} == {"meta.json", "error"}


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.ENOSPC, "no space left where the dumps are written"),
        (errno.EIO, "the device of the dump folder failed"),
        (errno.EMFILE, "the dumper failed"),
    ],
)
def test_a_write_that_fails_midway_leaves_an_error_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, cause: str
) -> None:
    def save(folder: str, tensor: Tensor, real: Any = archive.save) -> Written:
        if tensor.name == "aux_2":
            (Path(folder) / "aux_2.pt").write_bytes(b"half of it")
            raise OSError(number, os.strerror(number))
        written: Written = real(folder, tensor)
        return written

    writer = recorder(tmp_path)
    monkeypatch.setattr(archive, "save", save)
    problem = writer.write(request())
    assert problem is not None
    assert problem.cause == cause
    assert {entry.name for entry in only(tmp_path).iterdir()} == {"meta.json", "error"}
    monkeypatch.undo()
    assert writer.write(request()) is None, "the next one is not concerned"
    assert (tmp_path / "req_1" / "done").exists()


def test_rows_that_are_not_where_the_batch_says(tmp_path: Path) -> None:
    problem = recorder(tmp_path).write(request(tensors=lambda: states(10, first=5)))
    assert problem is not None
    assert "not where the batch says" in problem.cause


def test_a_device_that_fails_while_its_states_are_awaited(tmp_path: Path) -> None:
    def lost() -> dict[str, Tensor]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    problem = recorder(tmp_path).write(request(tensors=lost))
    assert problem is not None
    assert "illegal memory access" in problem.detail
    assert read(only(tmp_path))["ids_sha256"] is None


def test_nothing_at_all_when_not_even_the_error_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("remote.dumper.request._write", full)
    with pytest.raises(OSError, match="No space left"):
        recorder(tmp_path).write(request())
    assert [entry.name for entry in tmp_path.iterdir()] == [".counter"]


KILLED = """
import os, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from tests.unit.dumper.making import recorder, request
writer = recorder(Path(sys.argv[1]))
print("go", flush=True)
while True:
    writer.write(request(rows=2000))
"""


def test_killed_at_any_moment_no_directory_claims_what_it_has_not(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    for at in range(20):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), root], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(3)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.003 * at)
        process.kill()
        process.communicate()
    found = list(tmp_path.glob("req_*"))
    assert found
    for done in found:
        files = read(done)["files"]
        assert (done / "done").exists()
        assert {name: (done / name).stat().st_size for name in files} == {n: r["bytes"] for n, r in files.items()}


OTHER = """
import sys, pathlib, struct
folder, beside = sys.argv[1:]
sys.path.insert(0, beside)
from hsconsole_dumper.archive import Tensor
from hsconsole_dumper.batch import ChunkRule, split
from hsconsole_dumper.folder import Folder
from hsconsole_dumper.request import Origin, Recorder, Request
from hsconsole_dumper.room import Room
from hsconsole_dumper.stats import Stats
from hsconsole_dumper.writers import Writers
from hsconsole_dumper import loaded, refusal, release, settings
tensors = {n: Tensor(n, "float32", (2, 4), memoryview(bytes(32))) for n in ("aux_0", "final")}
tensors["input_ids"] = Tensor("input_ids", "int64", (2,), memoryview(struct.pack("<2q", 5, 6)))
writers = Writers(Recorder(Folder(folder), Room(folder), Origin("b", 1, (1,), "x", "0", "0")), Stats(folder))
writers.put(Request(None, 2, 0, 4, 0, 1, lambda: dict(tensors), lambda: None))
assert writers.drain(10)
assert (pathlib.Path(folder) / "req_0" / "done").exists()
"""


@pytest.mark.parametrize("python", oldest_and_newest(), ids=lambda path: path.parent.parent.name)
def test_under_other_pythons_and_its_other_name(tmp_path: Path, python: Path) -> None:
    shutil.copytree(Path(__file__).parents[3] / "remote" / "dumper", tmp_path / "site" / "hsconsole_dumper")
    subprocess.run([python, "-c", OTHER, tmp_path / "hs", tmp_path / "site"], check=True, timeout=60)
