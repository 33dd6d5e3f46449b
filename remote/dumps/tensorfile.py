"""A tensor in a `.pt` file: its description and the place of its payload, with the standard library alone."""

from __future__ import annotations

import dataclasses
import math
import os
import zlib
from collections.abc import Iterator

from .archive import Entry, TensorProblem, data_offset, entries, pread, pread_into
from .description import Description, describe
from .files import open_regular

_MAX_BESIDE = 64 * 1024  # bytes of an entry that is no payload


@dataclasses.dataclass(frozen=True)
class TensorFile:
    """A tensor saved by itself. size: of the file; offset, payload: place and length of its storage, in bytes.

    crc: CRC-32 of the payload as the zip directory has it; 0 where the writer left it out.
    """

    path: str
    size: int
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    contiguous: bool
    offset: int
    payload: int
    crc: int

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.itemsize

    @property
    def wanted(self) -> int:
        """Bytes of payload that the shape needs; a view of a larger storage has more than that."""
        return self.rows * self.row_bytes

    def chunks(self, length: int) -> Iterator[memoryview]:
        """The payload in pieces of `length` bytes, the last one shorter; each is gone when the next one is asked for.

        Raises OSError, TensorProblem.
        """
        buffer = memoryview(bytearray(min(length, self.payload)))
        handle = open_regular(self.path)
        try:
            for start in range(0, self.payload, length):
                piece = buffer[: min(length, self.payload - start)]
                pread_into(handle, piece, self.offset + start)
                yield piece
        finally:
            os.close(handle)

    def rows_at(self, first: int, count: int) -> bytes:
        """The bytes of `count` rows from row `first` on. Raises OSError, TensorProblem."""
        handle = open_regular(self.path)
        try:
            return pread(handle, count * self.row_bytes, self.offset + first * self.row_bytes)
        finally:
            os.close(handle)


def read(path: str) -> TensorFile:
    """Look into the `.pt` file at `path`; a few KB are read. Raises TensorProblem (in words), OSError."""
    handle = open_regular(path)
    try:
        size = os.fstat(handle).st_size
        found = entries(handle, size)
        beside = {name: _content(handle, entry) for name, entry in found.items() if not name.startswith("data/")}
        missing = [name for name in ("data.pkl", "version") if name not in beside]
        if missing:
            raise TensorProblem(f"not a tensor: {missing[0]} is missing")
        description = describe(beside["data.pkl"])
        storage = found.get(f"data/{description.key}")
        if storage is None:
            raise TensorProblem("its payload is missing")
        if beside.get("byteorder", b"little") != b"little":
            raise TensorProblem("its byte order is not little-endian")
        offset = data_offset(handle, storage)
        if offset + storage.size > size:
            raise TensorProblem("the file is cut short")
    finally:
        os.close(handle)
    if storage.size != description.numel * description.itemsize:
        raise TensorProblem(f"its payload has {storage.size:,} bytes, its pickle says {description.numel} elements")
    return TensorFile(
        path=path,
        size=size,
        dtype=description.dtype,
        itemsize=description.itemsize,
        shape=description.shape,
        contiguous=_contiguous(description),
        offset=offset,
        payload=storage.size,
        crc=storage.crc,
    )


def _content(handle: int, entry: Entry) -> bytes:
    """Of an entry beside the payload."""
    if entry.size > _MAX_BESIDE:
        raise TensorProblem(f"its {entry.name!r} is too large: {entry.size:,} bytes")
    content = pread(handle, entry.size, data_offset(handle, entry))
    if entry.crc not in (0, zlib.crc32(content)):
        raise TensorProblem(f"its {entry.name!r} is not what was written: its CRC differs")
    return content


def _contiguous(description: Description) -> bool:
    """Whether the storage holds its rows in order, from its beginning on."""
    expected = 1
    for length, stride in zip(reversed(description.shape), reversed(description.stride)):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return description.storage_offset == 0
