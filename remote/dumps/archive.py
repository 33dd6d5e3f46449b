"""The directory of a zip file as torch.save writes it: stored entries, no comment. Strict, bounded, never unpacking."""

from __future__ import annotations

import dataclasses
import os
import struct

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s4B4HL2L5H2L")
_LOCAL = struct.Struct("<4s2B4HL2L2H")
_MAX_ENTRIES = 64
_MAX_DIRECTORY = 64 * 1024  # bytes


class TensorProblem(Exception):
    """Why a `.pt` file can't be taken for a tensor, in words."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A stored entry. offset: of its local header; the data lies behind that."""

    name: str
    offset: int
    size: int
    crc: int


def entries(handle: int, size: int) -> dict[str, Entry]:
    """The entries of the archive by the part of their name behind the first `/`. Raises TensorProblem, OSError."""
    start, length, count = _end(handle, size)
    if count > _MAX_ENTRIES or length > _MAX_DIRECTORY:
        raise TensorProblem(f"its zip directory has {count} entries in {length:,} bytes: no tensor saved by itself")
    directory = pread(handle, length, start)
    found: dict[str, Entry] = {}
    position = 0
    try:
        for _ in range(count):
            entry, position = _central(directory, position)
            if entry.offset + _LOCAL.size + entry.size > start:
                raise TensorProblem(f"entry {entry.name!r} reaches beyond the data")
            found[entry.name.partition("/")[2]] = entry
    except (struct.error, UnicodeDecodeError):
        raise TensorProblem("its zip directory is damaged") from None
    return found


def data_offset(handle: int, entry: Entry) -> int:
    """Where the entry's data begins. Raises TensorProblem, OSError."""
    header = _LOCAL.unpack(pread(handle, _LOCAL.size, entry.offset))
    name = pread(handle, header[-2], entry.offset + _LOCAL.size)
    if header[0] != b"PK\x03\x04" or name != entry.name.encode():
        raise TensorProblem(f"the local header of {entry.name!r} is damaged")
    return entry.offset + _LOCAL.size + int(header[-2]) + int(header[-1])


def pread(handle: int, length: int, offset: int) -> bytes:
    """Exactly `length` bytes. Raises TensorProblem when the file ends before."""
    data = os.pread(handle, length, offset)
    while len(data) < length:
        part = os.pread(handle, length - len(data), offset + len(data))
        if not part:
            raise TensorProblem("the file is cut short")
        data += part
    return data


def pread_into(handle: int, piece: memoryview, offset: int) -> None:
    """Fill `piece`. Raises TensorProblem when the file ends before."""
    done = 0
    while done < len(piece):
        count = os.preadv(handle, [piece[done:]], offset + done)
        if not count:
            raise TensorProblem("the file is cut short")
        done += count


def _end(handle: int, size: int) -> tuple[int, int, int]:
    """Offset, length and number of entries of the central directory."""
    if size < _END.size:
        raise TensorProblem("too short for a zip file")
    signature, _, _, _, count, length, start, _ = _END.unpack(pread(handle, _END.size, size - _END.size))
    if signature != b"PK\x05\x06":
        raise TensorProblem("no zip directory at its end: cut short, or not saved by torch.save")
    end = size - _END.size
    if count == 0xFFFF or length == 0xFFFFFFFF or start == 0xFFFFFFFF:
        locator = _END64_LOCATOR.unpack(pread(handle, _END64_LOCATOR.size, max(0, end - _END64_LOCATOR.size)))
        if locator[0] != b"PK\x06\x07" or locator[2] + _END64.size > end:
            raise TensorProblem("its zip64 directory is damaged")
        record = _END64.unpack(pread(handle, _END64.size, locator[2]))
        if record[0] != b"PK\x06\x06":
            raise TensorProblem("its zip64 directory is damaged")
        count, length, start = record[7:10]
    if start + length > end:
        raise TensorProblem("its zip directory is damaged")
    return start, length, count


def _central(directory: bytes, position: int) -> tuple[Entry, int]:
    header = _CENTRAL.unpack_from(directory, position)
    flags, method = header[5], header[6]
    crc, packed, size, name_length, extra_length, comment_length = header[9:15]
    offset = header[-1]
    position += _CENTRAL.size
    name = directory[position : position + name_length].decode("utf-8")
    extra = directory[position + name_length : position + name_length + extra_length]
    if header[0] != b"PK\x01\x02" or flags & 1 or method != 0:
        raise TensorProblem("its zip directory is damaged, or an entry is compressed or encrypted")
    if 0xFFFFFFFF in (size, packed, offset):
        size, packed, offset = _zip64(extra, size, packed, offset)
    if packed != size:
        raise TensorProblem(f"entry {name!r} is compressed")
    return Entry(name, offset, size, crc), position + name_length + extra_length + comment_length


def _zip64(extra: bytes, *values: int) -> tuple[int, ...]:
    """The values of a central header with those that read 0xFFFFFFFF taken from the zip64 field."""
    position = 0
    while position + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, position)
        if tag == 1:
            wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, position + 4))
            return tuple(next(wide, value) if value == 0xFFFFFFFF else value for value in values)
        position += 4 + length
    return values
