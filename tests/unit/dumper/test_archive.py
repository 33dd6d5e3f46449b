"""The `.pt` writer by zip and pickle alone; tests/engine reads its files with torch."""

from __future__ import annotations

import os
import pickletools
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from remote.dumper import archive, reserve
from remote.dumper.archive import Tensor, TensorFile, Written
from remote.dumper.problem import DumpFailure


def save(folder: Path, *parts: Tensor) -> Written:
    file = TensorFile(str(folder), parts[0])
    for part in parts:
        file.append(part)
    return file.finish()


def test_the_records_case(tmp_path: Path) -> None:
    payload = os.urandom(10 * 7168 * 2)
    written = save(tmp_path, Tensor("aux_0", "bfloat16", (10, 7168), memoryview(payload)))
    path = tmp_path / "aux_0.pt"
    assert written == Written(path.stat().st_size, 143_360, zlib.crc32(payload), (10, 7168), "bfloat16")
    assert 0 < written.size - written.payload <= archive.FRAMING
    with zipfile.ZipFile(path) as read:
        assert read.testzip() is None
        assert read.read("aux_0/data/0") == payload
        assert read.read("aux_0/byteorder") == b"little"
        assert read.read("aux_0/version") == b"3\n"
        info = read.getinfo("aux_0/data/0")
        assert written.crc32 == info.CRC
        names = [op.name for op, _, _ in pickletools.genops(read.read("aux_0/data.pkl"))]
    assert names[-1] == "STOP"
    header = path.read_bytes()[info.header_offset : info.header_offset + 30]
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    assert (info.header_offset + 30 + name_length + extra_length) % 64 == 0, "torch maps what is aligned"


def test_a_request_without_rows(tmp_path: Path) -> None:
    written = save(tmp_path, Tensor("final", "float32", (0, 8), memoryview(b"")))
    assert written.payload == 0


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "final.pt").write_bytes(b"someone's")
    with pytest.raises(FileExistsError):
        save(tmp_path, Tensor("final", "float32", (1, 1), memoryview(bytes(4))))


def test_a_type_that_no_dump_holds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="float8_e4m3fn"):
        save(tmp_path, Tensor("final", "float8_e4m3fn", (1, 1), memoryview(b"x")))


def test_chunks_of_a_tensor_are_one_file(tmp_path: Path) -> None:
    payload = os.urandom(1000 * 64 * 2)
    chunks = [payload[: 300 * 128], payload[300 * 128 : 301 * 128], payload[301 * 128 :]]
    parts = [Tensor("final", "float16", (len(chunk) // 128, 64), memoryview(chunk)) for chunk in chunks]
    (tmp_path / "one").mkdir()
    whole = save(tmp_path / "one", Tensor("final", "float16", (1000, 64), memoryview(payload)))
    assert save(tmp_path, *parts) == whole
    assert (tmp_path / "final.pt").read_bytes() == (tmp_path / "one" / "final.pt").read_bytes()


@pytest.mark.parametrize(("dtype", "width"), [("float16", 64), ("float32", 32)])
def test_chunks_that_do_not_fit_together(tmp_path: Path, dtype: str, width: int) -> None:
    file = TensorFile(str(tmp_path), Tensor("final", "float32", (1, 64), memoryview(bytes(256))))
    with pytest.raises(DumpFailure, match="changed its shape"):
        file.append(Tensor("final", dtype, (2, width), memoryview(bytes(256))))
    file.close()


def test_more_than_a_zip_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LARGEST", 300)
    file = TensorFile(str(tmp_path), Tensor("final", "float32", (1, 64), memoryview(bytes(256))))
    file.append(Tensor("final", "float32", (1, 64), memoryview(bytes(256))))
    with pytest.raises(DumpFailure, match="too large"):
        file.append(Tensor("final", "float32", (1, 64), memoryview(bytes(256))))
    file.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "final.pt").symlink_to("/dev/full")
    file = TensorFile.__new__(TensorFile)
    tensor = Tensor("final", "float32", (1000, 100), memoryview(bytes(400_000)))
    file.__dict__.update(
        _name="final", _dtype="float32", _row_shape=(100,), _rows=0, _payload=0, _crc32=0,
        _file=os.open("/dev/full", os.O_WRONLY),
    )  # fmt: skip
    with pytest.raises(OSError, match="No space left"):
        file.append(tensor)
    file.close()


def test_a_file_system_that_sets_no_room_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserve, "_fallocate", None)
    assert save(tmp_path, Tensor("final", "float32", (1, 1), memoryview(bytes(4)))).payload == 4


def test_room_that_is_not_there(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match=r"No space left|too large"):
        reserve.reserve(file.fileno(), 0, 1 << 60)
