"""The directory of a zip file as torch.save writes it: stored entries, no comment. Strict, bounded, never unpacking."""

from __future__ import annotations

import dataclasses
import os
import struct
from typing import Optional

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s4B4HL2L5H2L")
_LOCAL = struct.Struct("<4s2B4HL2L2H")
_MAX_ENTRIES = 64
_MAX_DIRECTORY = 64 * 1024  # bytes
_FLAGS = 0x808  # sizes behind the data, names in UTF-8
_FOLDER = 0x10  # an attribute with which torch takes an entry for a folder, and reads none of its bytes
_WIDE = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)  # what stands for a number that has its place in a zip64 record


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
    """The entries of the archive by the part of their name behind the first `/`. Raises TensorProblem, OSError.

    Of what readers of zip files take in different ways, nothing is taken at all.
    """
    start, length, count = _end(handle, size)
    if count > _MAX_ENTRIES or length > _MAX_DIRECTORY:
        raise TensorProblem(f"its zip directory has {count} entries in {length:,} bytes: no tensor saved by itself")
    directory = pread(handle, length, start)
    found: dict[str, Entry] = {}
    names: set[tuple[str, str]] = set()  # torch takes DATA.PKL for data.pkl
    position = 0
    try:
        for _ in range(count):
            entry, position = _central(directory, position)
            if entry.offset + _LOCAL.size + entry.size > start:
                raise TensorProblem(f"entry {entry.name!r} reaches beyond the data")
            root, _, name = entry.name.partition("/")
            names.add((root, name.lower()))
            found[name] = entry
    except (struct.error, UnicodeDecodeError):
        raise TensorProblem("its zip directory is damaged") from None
    if position != length:
        raise TensorProblem("its zip directory is damaged")
    if len(names) != count or len({root for root, _ in names}) > 1:
        raise TensorProblem("its zip directory names an entry twice, or entries of several archives")
    return found


def data_offset(handle: int, entry: Entry) -> int:
    """Where the entry's data begins. Raises TensorProblem, OSError."""
    name = entry.name.encode()
    start = pread(handle, _LOCAL.size + len(name), entry.offset)
    header = _LOCAL.unpack_from(start)
    if header[0] != b"PK\x03\x04" or header[-2] != len(name) or not start.endswith(name):
        raise TensorProblem(f"the local header of {entry.name!r} is damaged")
    return entry.offset + len(start) + int(header[-1])


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
    end = size - _END.size
    before = min(end, _END64_LOCATOR.size)
    tail = pread(handle, before + _END.size, end - before)
    signature, disk, first_disk, here, *places, _ = _END.unpack(tail[before:])
    if signature != b"PK\x05\x06":
        raise TensorProblem("no zip directory at its end: cut short, or not saved by torch.save")
    wide = _end64(handle, end, tail[:before]) or tuple(places)
    agree = all(place in (value, most) for place, value, most in zip(places, wide, _WIDE))
    count, length, start = wide
    if disk or first_disk or here != places[0] or not agree or start + length > end:
        raise TensorProblem("its zip directory is damaged")
    return start, length, count


def _end64(handle: int, end: int, locator: bytes) -> Optional[tuple[int, ...]]:
    """Number of entries, length and offset of the directory by the zip64 record, which counts where there is one.

    locator: the bytes up to `end`, which may name its place.
    """
    if len(locator) < _END64_LOCATOR.size or not locator.startswith(b"PK\x06\x07"):
        return None
    _, disk, start, disks = _END64_LOCATOR.unpack(locator)
    record = _END64.unpack(pread(handle, _END64.size, start)) if start + _END64.size <= end else (b"",)
    if record[0] != b"PK\x06\x06" or (disk, disks, *record[4:7], record[1]) != (0, 1, 0, 0, record[7], 44):
        raise TensorProblem("its zip64 directory is damaged")
    return record[7:10]


def _central(directory: bytes, position: int) -> tuple[Entry, int]:
    header = _CENTRAL.unpack_from(directory, position)
    flags, method = header[5], header[6]
    crc, packed, size, name_length, extra_length, comment_length, disk = header[9:16]
    attributes, offset = header[-2:]
    position += _CENTRAL.size
    name = directory[position : position + name_length].decode("utf-8")
    extra = directory[position + name_length : position + name_length + extra_length]
    if header[0] != b"PK\x01\x02" or flags & ~_FLAGS or method != 0 or disk or attributes & _FOLDER:
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
