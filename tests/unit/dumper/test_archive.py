"""The `.pt` writer by zip and pickle alone; tests/engine reads its files with torch."""

from __future__ import annotations

import io
import os
import pickletools
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from remote.dumper import archive
from remote.dumper.archive import Tensor


def test_the_records_case(tmp_path: Path) -> None:
    payload = os.urandom(10 * 7168 * 2)
    written = archive.save(str(tmp_path), Tensor("aux_0", "bfloat16", (10, 7168), memoryview(payload)))
    path = tmp_path / "aux_0.pt"
    assert written == (path.stat().st_size, 143_360, zlib.crc32(payload))
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
    written = archive.save(str(tmp_path), Tensor("final", "float32", (0, 8), memoryview(b"")))
    assert written.payload == 0


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "final.pt").write_bytes(b"someone's")
    with pytest.raises(FileExistsError):
        archive.save(str(tmp_path), Tensor("final", "float32", (1, 1), memoryview(bytes(4))))


def test_a_type_that_no_dump_holds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="float8_e4m3fn"):
        archive.save(str(tmp_path), Tensor("final", "float8_e4m3fn", (1, 1), memoryview(b"x")))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        archive, "open", lambda path, mode: io.BufferedWriter(io.FileIO("/dev/full", "w")), raising=False
    )
    with pytest.raises(OSError, match="No space left"):
        archive.save(str(tmp_path), Tensor("final", "float32", (1000, 100), memoryview(bytes(400_000))))
