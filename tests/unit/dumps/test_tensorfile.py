"""Tensor files: what torch.save writes is read, everything else is refused in words, nothing crashes the reader."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import warnings
import zipfile
from pathlib import Path

import pytest

from remote.dumps import tensorfile
from remote.dumps.archive import TensorProblem
from tests import torchfile


def rebuilt(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("dtype", "itemsize"), [("bfloat16", 2), ("float16", 2), ("float32", 4), ("int64", 8)])
def test_every_dtype_and_layout_is_read(tmp_path: Path, dtype: str, itemsize: int, old: bool) -> None:
    payload = os.urandom(10 * 8 * itemsize)
    torchfile.write(tmp_path / "aux_0.pt", payload, (10, 8), dtype, old=old)
    found = tensorfile.read(str(tmp_path / "aux_0.pt"))
    assert (found.dtype, found.itemsize, found.shape, found.contiguous) == (dtype, itemsize, (10, 8), True)
    assert found.payload == found.wanted == len(payload)
    assert b"".join(map(bytes, found.chunks(7))) == payload


def test_the_records_file_has_its_size(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "aux_0.pt", bytes(143_360), (10, 7168))
    found = tensorfile.read(str(tmp_path / "aux_0.pt"))
    assert (found.size, found.payload, found.size - found.payload) == (144_859, 143_360, 1_499)


def test_a_view_shows_its_whole_storage(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "view.pt", bytes(160 * 16), (10, 8), offset=24)
    found = tensorfile.read(str(tmp_path / "view.pt"))
    assert (found.payload, found.wanted) == (2560, 160)


def test_a_transposed_tensor_is_not_contiguous(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "t.pt", bytes(320), (8, 10), "float32", stride=(1, 8))
    assert not tensorfile.read(str(tmp_path / "t.pt")).contiguous


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch owned",)


REFUSED = {
    "a call": (pickle.dumps(Evil(), 2), "refers to"),
    "a module": (rebuilt(b"cbuiltins\neval\n"), "builtins.eval"),
    "a dict": (pickle.dumps({"a": 1}, 2), "something else"),
    "a number": (rebuilt(b"K\x01"), "something else"),
    "a huge memo": (rebuilt(b"K\x01r\xff\xff\xff\xff"), "something else"),
    "nothing": (b"", "damaged"),
    "an empty stack": (rebuilt(), "damaged"),
    "a call of a number": (rebuilt(b"K\x01)R"), "something else"),
    "a storage of the wrong kind": (rebuilt(b"(X\x07\0\0\0storageK\x01K\x01K\x01K\x01tQ"), "damaged"),
    "a tuple for a storage": (
        rebuilt(b"(X\x07\0\0\0storageX\x12\0\0\0torch FloatStorage\x85X\1\0\0\x000X\3\0\0\0cpuK\x01tQ"),
        "damaged",
    ),
    "a long string": (rebuilt(b"X\xff\xff\xff\x7f"), "damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_pickles_are_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickled, words = REFUSED[name]
    (tmp_path / "x.pt").write_bytes(torchfile.archive("x", bytes(160), pickled))
    with pytest.raises(TensorProblem, match=words):
        tensorfile.read("x.pt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "too short"),
        (b"x" * 5000, "no zip directory"),
        (b"PK\5\6" + bytes(18), "data.pkl is missing"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9999, 9999, 0, 0, 0), "no tensor saved by itself"),
        (struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0), "cut short|damaged"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(TensorProblem, match=words):
        tensorfile.read(str(tmp_path / "x.pt"))


PICKLED = torchfile.pickled(bytes(160), (10, 8), "bfloat16")
ENTRIES = [("x/data.pkl", PICKLED), ("x/data/0", bytes(160)), ("x/version", b"3\n")]


def zipped(*more: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings(action="ignore"):  # of duplicate names
        for name, content in (*ENTRIES, *more):
            archive.writestr(name, content)
    return file.getvalue()


def edited(where: bytes, at: int, byte: int) -> bytes:
    """What torch would write, with one byte behind, or before, the last `where` set."""
    content = bytearray(torchfile.archive("x", bytes(160), PICKLED))
    content[content.rfind(where) + at] = byte
    return bytes(content)


DIRECTORY = b"x/data/0"  # the last of it is behind 46 bytes that say what is known of the payload
# What readers of zip files take in different ways: the bytes that were looked at need not be those that torch loads.
AMBIGUOUS = {
    "a payload twice": (zipped(("x/data/0", bytes(range(160)))), "twice"),
    "a name in capitals beside its own": (zipped(("x/DATA.PKL", PICKLED)), "twice"),
    "two archives": (zipped(("y/byteorder", b"little")), "several archives"),
    "a folder with content": (edited(DIRECTORY, 38 - 46, 0x10), "damaged"),
    "an encrypted payload": (edited(DIRECTORY, 8 - 46, 1), "encrypted"),
    "one that is a patch": (edited(DIRECTORY, 8 - 46, 0x20), "damaged"),
    "one on another disk": (edited(DIRECTORY, 34 - 46, 1), "damaged"),
    "a byte more in a comment": (edited(DIRECTORY, 32 - 46, 1), "damaged"),
    "a damaged version": (edited(b"3\n", 0, ord("9")), "CRC differs"),
    "a damaged serial": (edited(torchfile.SERIAL.encode(), 5, 0xFF), "CRC differs"),
    "a pickle of other columns": (edited(b"K\x0aK\x08", 3, 16), "CRC differs"),
    "another directory by its zip64 end": (edited(b"PK\6\6", 48, 0xFF), "damaged"),
    "more entries by its zip64 end": (edited(b"PK\6\6", 32, 3), "damaged"),
    "several disks": (edited(b"PK\5\6", 4, 1), "damaged"),
    "no version": (zipped().replace(b"x/version", b"x/Version"), "version is missing"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(tmp_path: Path, name: str) -> None:
    content, words = AMBIGUOUS[name]
    path = tmp_path / "x.pt"
    path.write_bytes(zipped())
    assert tensorfile.read(str(path)).shape == (10, 8), "fine without that"
    path.write_bytes(content)
    with pytest.raises(TensorProblem, match=words):
        tensorfile.read(str(path))


def test_rows_that_begin_behind_their_storage_are_not_its_rows(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", bytes(160), (10, 8), offset=8)
    found = tensorfile.read(str(tmp_path / "x.pt"))
    assert found.payload == found.wanted
    assert not found.contiguous


def test_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", bytes(160), (10, 8))
    (tmp_path / "link.pt").symlink_to(tmp_path / "x.pt")
    os.mkfifo(tmp_path / "pipe.pt")
    for name in ("link.pt", "pipe.pt", "missing.pt"):
        with pytest.raises(OSError, match=name):
            tensorfile.read(str(tmp_path / name))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pickletools, for escapes in damaged strings
def test_no_damage_crashes_the_reader(tmp_path: Path) -> None:
    """Cut at every length, every byte changed: a TensorProblem, or a tensor whose payload can be read."""
    path = tmp_path / "x.pt"
    torchfile.write(path, bytes(range(64)), (4, 8))
    good = path.read_bytes()
    rand = random.Random(3)
    damaged = [good[:length] for length in range(len(good))]
    damaged += [good[:i] + bytes([good[i] ^ 1 << rand.randrange(8)]) + good[i + 1 :] for i in range(len(good))]
    damaged += [good[:i] + rand.randbytes(4) + good[i + 4 :] for i in range(len(good) - 4)]
    read = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            found = tensorfile.read(str(path))
        except TensorProblem:
            continue
        assert sum(map(len, found.chunks(1024))) == found.payload <= len(content)
        read += 1
    assert read > 100  # payload and padding may change unseen here: checksums see it


def test_a_file_cut_between_look_and_read_is_a_problem(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", bytes(160), (10, 8))
    found = tensorfile.read(str(tmp_path / "x.pt"))
    os.truncate(tmp_path / "x.pt", found.offset + 50)
    with pytest.raises(TensorProblem, match="cut short"):
        list(found.chunks(1024))
