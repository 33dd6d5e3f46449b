"""A request is there whole, or as an error, or not at all."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.dumper.archive import Tensor, TensorFile
from remote.dumper.problem import Problem
from remote.dumper.request import Writing
from tests.pythons import oldest_and_newest

from .making import RANK, desk, part, states, write


def read(path: Path, name: str = "meta.json") -> dict[str, Any]:
    value: dict[str, Any] = json.loads((path / name).read_text())
    return value


def only(path: Path) -> Path:
    """The one request there; nothing is left aside."""
    (found,) = (entry for entry in path.iterdir() if entry.name != ".counter")
    return found


def test_a_whole_request(tmp_path: Path) -> None:
    tensors = states(10)
    assert write(desk(tmp_path), part(tensors=tensors)) is None
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


def test_a_request_in_chunks_is_as_one_that_came_whole(tmp_path: Path) -> None:
    released: list[int] = []
    chunks = [part(4), part(1, first=4), part(7, first=5, release=lambda: released.append(1))]
    assert write(desk(tmp_path), *chunks) is None
    assert released == [1]
    found = only(tmp_path)
    meta = read(found)
    assert (meta["num_tokens"], meta["first_position"], meta["last_position"]) == (12, 0, 11)
    for name, record in meta["files"].items():
        payload = b"".join(bytes(chunk.tensors[name.removesuffix(".pt")].data) for chunk in chunks)
        assert record["crc32"] == zlib.crc32(payload)
        assert record["shape"][0] == 12
        with zipfile.ZipFile(found / name) as archive:
            assert archive.read(f"{name.removesuffix('.pt')}/data/0") == payload
    ids = b"".join(bytes(chunk.tensors["input_ids"].data) for chunk in chunks)
    assert meta["ids_sha256"] == hashlib.sha256(ids).hexdigest()


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_chunk_that_fails_makes_the_request_an_error(tmp_path: Path, bad: int) -> None:
    chunks = [part(4), part(3, first=4), part(7, first=7)]
    chunks[bad] = dataclasses.replace(chunks[bad], problem=Problem("odd chunk"))
    assert write(desk(tmp_path), *chunks) == Problem("odd chunk")
    found = only(tmp_path)
    assert {entry.name for entry in found.iterdir()} == {"meta.json", "error"}
    assert read(found)["num_tokens"] == 14


def test_chunks_with_rows_missing_between(tmp_path: Path) -> None:
    wrong = dataclasses.replace(part(3, first=5), first=4)
    problem = write(desk(tmp_path), part(4), wrong)
    assert problem is not None
    assert "not where the batch says" in problem.cause


def test_an_error_says_why_and_whose(tmp_path: Path) -> None:
    ids = {"input_ids": states(4)["input_ids"]}
    problem = Problem("it was not to be", "four rows")
    assert write(desk(tmp_path), part(4, problem=problem, tensors=ids)) == problem
    found = only(tmp_path)
    assert {entry.name for entry in found.iterdir()} == {"meta.json", "error"}
    assert read(found, "error") == {"cause": "it was not to be", "detail": "four rows"}
    meta = read(found)
    assert (meta["rid"], meta["counter"], meta["num_tokens"]) == ("r", 0, 4)
    assert meta["ids_sha256"] == hashlib.sha256(ids["input_ids"].data).hexdigest()


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.dumper.room._free", lambda folder: (100_000, 50_000))
    problem = write(desk(tmp_path))
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
    def append(file: TensorFile, rows: Tensor, real: Any = TensorFile.append) -> int:
        if rows.name == "aux_2":
            raise OSError(number, os.strerror(number))
        count: int = real(file, rows)
        return count

    place = desk(tmp_path)
    monkeypatch.setattr(TensorFile, "append", append)
    opened = _open_files()
    problem = write(place)
    assert _open_files() == opened, "no file stays open"
    assert problem is not None
    assert problem.cause == cause
    assert {entry.name for entry in only(tmp_path).iterdir()} == {"meta.json", "error"}
    monkeypatch.undo()
    assert write(place) is None, "the next one is not concerned"
    assert (tmp_path / "req_1" / "done").exists()


def test_a_file_system_that_tells_at_the_end_what_it_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is closed once: a number closed again would be another file's by then, perhaps one of the server's."""
    closed: list[int] = []

    def close(file: int) -> None:
        closed.append(file)
        os.close(file)
        if len(closed) > whole:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("remote.dumper.archive.os", SimpleNamespace(**{**vars(os), "close": close}))
    opened = _open_files()
    for whole in range(5):
        closed.clear()
        problem = write(desk(tmp_path / f"{whole}"))
        assert problem is not None
        assert problem.cause == "the device of the dump folder failed"
        assert {entry.name for entry in only(tmp_path / f"{whole}").iterdir()} == {"meta.json", "error"}
        assert len(closed) == 5
        assert _open_files() == opened


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_folder_that_is_deleted_between_two_chunks(tmp_path: Path) -> None:
    place = desk(tmp_path / "hs")
    writing = Writing(place, "r", RANK)
    writing.add(part(4))
    shutil.rmtree(tmp_path / "hs")
    writing.add(part(3, first=4))
    problem = writing.finish()
    assert problem is not None
    assert problem.cause == "the dump folder was deleted while the request was written"
    assert write(place) is None
    assert {path.parent.name for path in (tmp_path / "hs").glob("req_*/*")} == {"req_0", "req_1"}


def test_rows_that_are_not_where_the_batch_says(tmp_path: Path) -> None:
    problem = write(desk(tmp_path), part(tensors=states(10, first=5)))
    assert problem is not None
    assert "not where the batch says" in problem.cause


def test_a_request_that_is_given_up(tmp_path: Path) -> None:
    writing = Writing(desk(tmp_path), "r", RANK)
    writing.add(part(4))
    assert list(tmp_path.glob(".req_0.*/aux_0.pt"))
    assert writing.give_up(Problem("no more came")) == Problem("no more came")
    assert {entry.name for entry in only(tmp_path).iterdir()} == {"meta.json", "error"}


def test_nothing_at_all_when_not_even_the_error_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("remote.dumper.request._write", full)
    with pytest.raises(OSError, match="No space left"):
        write(desk(tmp_path))
    assert [entry.name for entry in tmp_path.iterdir()] == [".counter"]


# Forks writers again and again without importing anything anew: "<seconds>" on stdin kills the next one so late.
KILLED = """
import os, signal, sys, time
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from remote.dumper.writers import Line, Writers
from tests.unit.dumper.making import RANK, Writing, desk, part

def produce():
    place, writers = desk(Path(sys.argv[1])), Writers(3)
    place.folder.prepare()
    for number in range(10**9):
        writing, line = Writing(place, f"r{number}", RANK), Line()
        for first in range(0, 900, 900 if number % 2 else 300):
            chunk = part(900 if number % 2 else 300, first=first)
            writers.put(line, lambda writing=writing, chunk=chunk: writing.add(chunk))
        writers.put(line, writing.finish)
        while writers._pending > 20:
            time.sleep(0.001)

for late in sys.stdin:
    child = os.fork()
    if child == 0:
        produce()
    time.sleep(float(late))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""


def test_killed_hundreds_of_times_no_directory_claims_what_it_has_not(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", KILLED, str(tmp_path), root]
    dice, seen, aside = random.Random(1), 0, 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for kills in range(3000):
            if kills >= 300 and min(seen, aside) > 30:
                break
            longest = 0.06 * (1 + kills // 300)  # on a busy machine nothing is whole so soon
            process.stdin.write(f"{dice.uniform(0.002, longest)}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "killed\n"
            aside += len(list(tmp_path.glob(".req_*")))
            for request in tmp_path.glob("req_*"):
                _prove_whole(request)
                shutil.rmtree(request)
                seen += 1
        process.stdin.close()
    assert seen > 30, "some came to their end"
    assert aside > 30, "the kills did hit requests that were being written"


def _prove_whole(request: Path) -> None:
    meta = read(request)
    assert {entry.name for entry in request.iterdir()} == {*meta["files"], "meta.json", "done"}
    for name, record in meta["files"].items():
        assert (request / name).stat().st_size == record["bytes"]
        with zipfile.ZipFile(request / name) as archive:
            assert archive.testzip() is None
            assert record["crc32"] == archive.getinfo(f"{name.removesuffix('.pt')}/data/0").CRC


OTHER = """
import sys, pathlib, struct
folder, beside = sys.argv[1:]
sys.path.insert(0, beside)
from hsconsole_dumper.archive import Tensor
from hsconsole_dumper.folder import Folder
from hsconsole_dumper.request import Desk, Origin, Part, Rank, Writing
from hsconsole_dumper.room import Room
from hsconsole_dumper.writers import Line, Writers
from hsconsole_dumper import batch, loaded, reduction, refusal, release, selection, settings, stats
tensors = {n: Tensor(n, "float32", (2, 4), memoryview(bytes(32))) for n in ("aux_0", "final")}
tensors["input_ids"] = Tensor("input_ids", "int64", (2,), memoryview(struct.pack("<2q", 5, 6)))
writing = Writing(Desk(Folder(folder), Room(folder), Origin("b", 1, (1,), "x", "0", "0")), None, Rank(0, 1, 4))
writers, line = Writers(), Line()
writers.put(line, lambda: writing.add(Part(2, 0, tensors, lambda: None)))
writers.put(line, writing.finish)
assert writers.drain(10)
assert (pathlib.Path(folder) / "req_0" / "done").exists()
"""


@pytest.mark.parametrize("python", oldest_and_newest(), ids=lambda path: path.parent.parent.name)
def test_under_other_pythons_and_its_other_name(tmp_path: Path, python: Path) -> None:
    shutil.copytree(Path(__file__).parents[3] / "remote" / "dumper", tmp_path / "site" / "hsconsole_dumper")
    subprocess.run([python, "-c", OTHER, tmp_path / "hs", tmp_path / "site"], check=True, timeout=60)
