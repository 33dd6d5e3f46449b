"""What a .safetensors file says of itself: 8 bytes of length, and JSON that tells what lies where behind it."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from remote.dumps.files import plain

LARGEST_JSON = 64 << 20  # bytes


class Stored(NamedTuple):
    """A tensor. dtype: as the file names it, such as "BF16". begin, end: in the file, bytes."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """size: bytes that the whole file must have."""

    tensors: dict[str, Stored]
    size: int


def read(path: str) -> Header:
    """Raises OSError, and ValueError where that is no such header."""
    with open(path, "rb", opener=plain) as file:
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            header: Any = json.loads(file.read(length)) if length <= LARGEST_JSON else None
            start = 8 + length
            tensors = {name: _stored(entry, start) for name, entry in header.items() if name != "__metadata__"}
        except (struct.error, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise ValueError(f"{path} is no safetensors file") from None
    return Header(tensors, max((one.end for one in tensors.values()), default=start))


def _stored(entry: Any, start: int) -> Stored:
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    if not all(isinstance(number, int) and 0 <= number < 1 << 53 for number in (*shape, begin, end)):
        raise ValueError("no place for a tensor")
    return Stored(str(entry["dtype"]), shape, start + begin, start + end)
