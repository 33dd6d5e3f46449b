"""`.pt` files as torch.save writes them (a stored zip), from raw bytes, without torch, rows after rows.

Written here because the payload then goes from the pinned buffer to the file in one copy, outside the GIL, and
because what stands before it has a fixed size: a prompt that comes in chunks is appended as it comes.
"""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from typing import NamedTuple

from .problem import DumpFailure, Problem
from .reserve import reserve

_STORAGES = {
    "bfloat16": "BFloat16Storage",
    "float16": "HalfStorage",
    "float32": "FloatStorage",
    "int64": "LongStorage",
}
_HEAD = 512  # bytes before the payload; a multiple of 64, so that torch can map it into memory
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_ANY_DATE = 0x21  # 1980-01-01, as torch writes it
_LARGEST = (1 << 32) - 1 - 4096  # what a zip without 64-bit fields can hold
_AT_ONCE = 4 << 20  # bytes that are still in the cache when they are written after their checksum was taken
FRAMING = 2048  # no file is larger than its payload by more than this


class Tensor(NamedTuple):
    """A contiguous tensor in row-major order, little-endian. dtype: a name such as "bfloat16"."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview


class Written(NamedTuple):
    """A file that was written. size: bytes on disk. crc32: of the payload, the one in the zip directory."""

    size: int
    payload: int
    crc32: int
    shape: tuple[int, ...]
    dtype: str


class TensorFile:
    """`<folder>/<name>.pt`, open until it is closed; no zip before `finish`.

    Raises OSError, and ValueError for a dtype that has no place in a dump.
    """

    def __init__(self, folder: str, first: Tensor) -> None:
        if first.dtype not in _STORAGES:
            raise ValueError(f"no dump holds tensors of {first.dtype}")
        self._name = first.name
        self._dtype = first.dtype
        self._row_shape = first.shape[1:]
        self._rows = 0
        self._payload = 0
        self._crc32 = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(os.path.join(folder, f"{first.name}.pt"), flags, 0o644)

    def append(self, rows: Tensor) -> int:
        """Write rows behind those that are there. Returns the bytes that the file took."""
        data = rows.data.cast("B")
        if (rows.dtype, rows.shape[1:]) != (self._dtype, self._row_shape):
            raise DumpFailure(Problem("a tensor changed its shape or type between two chunks", self._name))
        if self._payload + data.nbytes > _LARGEST:
            raise DumpFailure(Problem("a tensor of this request is too large for one file", f"{self._name}: 4 GiB"))
        reserve(self._file, _HEAD + self._payload, data.nbytes)
        for start in range(0, data.nbytes, _AT_ONCE):
            piece = data[start : start + _AT_ONCE]
            self._crc32 = zlib.crc32(piece, self._crc32)
            _write_all(self._file, piece, _HEAD + self._payload + start)
        self._payload += data.nbytes
        self._rows += rows.shape[0]
        return data.nbytes + FRAMING

    def finish(self) -> Written:
        """Make it a `.pt` file of the rows that were appended, and close it."""
        shape = (self._rows, *self._row_shape)
        head, tail = _framing(self._name, _pickled(self._dtype, shape), self._payload, self._crc32)
        _write_all(self._file, memoryview(head), 0)
        _write_all(self._file, memoryview(tail), _HEAD + self._payload)
        size = os.fstat(self._file).st_size
        self.close()
        return Written(size, self._payload, self._crc32, shape, self._dtype)

    def close(self) -> None:
        """Raises OSError where the file system says only now that it lost what was written."""
        file, self._file = self._file, -1  # it is closed then too, and its number may be another file's at once
        if file >= 0:
            os.close(file)


def _write_all(file: int, data: memoryview, at: int) -> None:
    while data:
        count = os.pwrite(file, data, at)
        data, at = data[count:], at + count


def _framing(root: str, pickled: bytes, payload: int, crc32: int) -> tuple[bytes, bytes]:
    """What stands before the payload, _HEAD bytes, and what stands behind it."""
    head, directory = b"", b""
    for name, content in (("data.pkl", pickled), ("byteorder", b"little"), ("version", b"3\n")):
        record = _Record(f"{root}/{name}".encode("ascii"), len(content), zlib.crc32(content), len(head))
        head += record.local(0) + content
        directory += record.central()
    record = _Record(f"{root}/data/0".encode("ascii"), payload, crc32, len(head))
    padding = _HEAD - len(head) - len(record.local(0))
    if padding < 0:
        raise ValueError(f"{root} is too long a name")
    directory += record.central()
    end = _END.pack(b"PK\5\6", 0, 0, 4, 4, len(directory), _HEAD + payload, 0)
    return head + record.local(padding), directory + end


class _Record(NamedTuple):
    """An entry of a zip, stored as it is. at: where it begins."""

    name: bytes
    size: int
    crc32: int
    at: int

    def local(self, padding: int) -> bytes:
        fields = (20, 0, 0, 0, _ANY_DATE, self.crc32, self.size, self.size, len(self.name))
        if not padding:
            return _LOCAL.pack(b"PK\3\4", *fields, 0) + self.name
        extra = struct.pack("<2sH", b"FB", padding - 4) + b"Z" * (padding - 4)
        return _LOCAL.pack(b"PK\3\4", *fields, len(extra)) + self.name + extra

    def central(self) -> bytes:
        fields = (20, 20, 0, 0, 0, _ANY_DATE, self.crc32, self.size, self.size, len(self.name))
        return _CENTRAL.pack(b"PK\1\2", *fields, 0, 0, 0, 0, 0, self.at) + self.name


def _pickled(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What torch.save pickles for a contiguous tensor that owns its storage, in opcodes of pickle protocol 2."""
    elements, strides = 1, []
    for size in reversed(shape):
        strides.append(elements)
        elements *= size
    return b"".join(
        (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((",
            _text("storage"),
            b"ctorch\n%s\n" % _STORAGES[dtype].encode("ascii"),
            _text("0"),
            _text("cpu"),
            _value(elements),
            b"tQK\x00",
            _value(shape),
            _value(tuple(reversed(strides))),
            b"\x89ccollections\nOrderedDict\n)RtR.",
        )
    )


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode("ascii")


def _value(value: int | tuple[int, ...]) -> bytes:
    """An int or a tuple of ints, without the protocol's frame and without memo entries (they would clash)."""
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_value, value)) + b"t"
    return pickle.dumps(value, 2)[2:-1]
