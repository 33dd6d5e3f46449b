"""Writes `.pt` files byte for byte like torch.save, without torch (checked against torch 2.13: tests/engine)."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

STORAGES = {
    "bfloat16": ("BFloat16Storage", 2),
    "float16": ("HalfStorage", 2),
    "float32": ("FloatStorage", 4),
    "int64": ("LongStorage", 8),
}
SERIAL = "1572819951185464302606731058022848024995"


def write(
    path: Path,
    payload: bytes,
    shape: Sequence[int],
    dtype: str = "bfloat16",
    *,
    offset: int = 0,
    stride: Sequence[int] = (),
    old: bool = False,
    stem: str = "",
) -> None:
    """payload: the whole storage, more than the shape needs for a view. old: the entries torch wrote before 2.1."""
    path.write_bytes(archive(stem or path.stem, payload, pickled(payload, shape, dtype, offset, stride), old=old))


def pickled(payload: bytes, shape: Sequence[int], dtype: str, offset: int = 0, stride: Sequence[int] = ()) -> bytes:
    """The pickle of a tensor as protocol 2 writes it, memo and all."""
    storage, itemsize = STORAGES[dtype]
    strides = stride or [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return b"".join(
        (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((",
            _text("storage") + b"q\x01" + f"ctorch\n{storage}\n".encode() + b"q\x02",
            _text("0") + b"q\x03" + _text("cpu") + b"q\x04" + _int(len(payload) // itemsize) + b"tq\x05Q",
            _int(offset) + _tuple(shape) + b"q\x06" + _tuple(strides) + b"q\x07",
            b"\x89ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b.",
        )
    )


def archive(stem: str, payload: bytes, pickle: bytes, *, old: bool = False) -> bytes:
    """The zip archive: stored entries, data aligned to 64 bytes, sizes in descriptors, a zip64 end."""
    entries = [("data.pkl", pickle), ("data/0", payload), ("version", b"3\n")]
    if not old:
        entries[1:1] = [(".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")]
        entries.append((".data/serialization_id", SERIAL.encode()))
    body, central = b"", b""
    for name, data in entries:
        full, crc = f"{stem}/{name}".encode(), zlib.crc32(data)
        central += struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 0, 0, 0, 0, 0x808 if data else 0x800, 0, 0, 0, crc,
                               len(data), len(data), len(full), 0, 0, 0, 0, 0, len(body)) + full  # fmt: skip
        padding = -(len(body) + 30 + len(full) + 4) % 64
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        local = (b"PK\3\4", 0, 0, 0x808 if data else 0x800, 0, 0, 0, 0, 0, 0, len(full), len(extra))
        body += struct.pack("<4s2B4HL2L2H", *local) + full + extra + data
        if data:
            body += struct.pack("<4s3L", b"PK\x07\x08", crc, len(data), len(data))
    count, size, start = len(entries), len(central), len(body)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 0, 0x31E, 0, 0, count, count, size, start)
    end64 = end64[:12] + b"\x1e\x03\x2d\x00" + end64[16:]
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1)
    return body + central + end64 + locator + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, start, 0)


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<L", len(value)) + value.encode()


def _int(value: int) -> bytes:
    if value < 256:
        return b"K" + bytes([value])
    return b"M" + struct.pack("<H", value) if value < 65536 else b"J" + struct.pack("<l", value)


def _tuple(values: Sequence[int]) -> bytes:
    if not values:
        return b")"
    items = b"".join(map(_int, values))
    return items + {1: b"\x85", 2: b"\x86", 3: b"\x87"}[len(values)] if len(values) < 4 else b"(" + items + b"t"
