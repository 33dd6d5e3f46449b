"""`.pt` files as torch.save writes them (a stored zip), from raw bytes and without torch.

Written here because the payload then goes from the pinned buffer to the file in one write, outside the GIL,
and holds the rows of one request whatever buffer they lie in.
"""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from typing import NamedTuple

_STORAGES = {
    "bfloat16": "BFloat16Storage",
    "float16": "HalfStorage",
    "float32": "FloatStorage",
    "int64": "LongStorage",
}
_ALIGNMENT = 64  # torch aligns what may be mapped into memory
_LOCAL_HEADER = 30
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


def save(folder: str, tensor: Tensor) -> Written:
    """Write `<folder>/<name>.pt`. Raises OSError, and ValueError for a dtype that has no place in a dump."""
    path = os.path.join(folder, f"{tensor.name}.pt")
    payload = tensor.data.cast("B")
    with open(path, "xb") as file, zipfile.ZipFile(file, "w") as archive:
        _add(archive, tensor.name, "data.pkl", _pickled(tensor))
        _add(archive, tensor.name, "byteorder", b"little")
        crc32 = _add(archive, tensor.name, "data/0", payload)
        _add(archive, tensor.name, "version", b"3\n")
    return Written(os.stat(path).st_size, payload.nbytes, crc32)


def _add(archive: zipfile.ZipFile, root: str, name: str, data: bytes | memoryview) -> int:
    record = zipfile.ZipInfo(f"{root}/{name}")
    record.file_size = len(data)
    if archive.fp is None:
        raise ValueError("the archive is closed")
    start = archive.fp.tell() + _LOCAL_HEADER + len(record.filename) + 4
    padding = -start % _ALIGNMENT
    record.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    with archive.open(record, "w") as entry:
        entry.write(data)
    return record.CRC


def _pickled(tensor: Tensor) -> bytes:
    """What torch.save pickles for a contiguous tensor that owns its storage, in opcodes of pickle protocol 2."""
    if tensor.dtype not in _STORAGES:
        raise ValueError(f"no dump holds tensors of {tensor.dtype}")
    elements, strides = 1, []
    for size in reversed(tensor.shape):
        strides.append(elements)
        elements *= size
    return b"".join(
        (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((",
            *map(_text, ("storage",)),
            b"ctorch\n%s\n" % _STORAGES[tensor.dtype].encode("ascii"),
            *map(_text, ("0", "cpu")),
            _value(elements),
            b"tQK\x00",
            _value(tensor.shape),
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
