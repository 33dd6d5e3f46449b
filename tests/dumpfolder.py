"""Dump folders for tests: version 3 and the forerunner's, with real `.pt` files."""

from __future__ import annotations

import hashlib
import json
import struct
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import torchfile

RECORD: dict[str, Any] = {
    "num_tokens": 10,
    "hidden_size": 7168,
    "num_aux_layers": 3,
    "captured_at_layers": [3, 31, 59],
    "counter": 8,
    "timestamp": 1771958433.3917341,
}
VERSION_3: dict[str, Any] = {
    **RECORD,
    "schema": 3,
    "eagle_layer_ids": [2, 30, 58],
    "boot_id": "b00t",
    "pid": 4711,
    "tp_rank": 0,
    "tp_size": 1,
    "first_position": 0,
    "final_norm": "post",
    "dtype": "bfloat16",
    "sglang_version": "0.5.23",
    "dumper_version": "0.1.0",
    "dumper_digest": "d1",
}


def payload(rows: int, columns: int, seed: int) -> bytes:
    """Finite bfloat16 values, none of them zero, no two rows or seeds alike."""
    one = range(seed * 7919, seed * 7919 + rows * columns)
    return struct.pack(f"<{rows * columns}H", *(0x3C00 + (i * 2654435761 >> 7) % 0x300 for i in one))


def forerunner(folder: Path, number: int, *, tokens: int = 10, columns: int = 8, **changed: Any) -> Path:
    """A complete dump of version 1: six keys, aux_0..2 and final."""
    path = folder / f"req_{number}"
    path.mkdir(parents=True)
    for seed, name in enumerate(("aux_0", "aux_1", "aux_2", "final")):
        torchfile.write(path / f"{name}.pt", payload(tokens, columns, seed), (tokens, columns))
    meta = {**RECORD, "num_tokens": tokens, "hidden_size": columns, "counter": number, "timestamp": time.time()}
    (path / "meta.json").write_text(json.dumps({**meta, **changed}))
    (path / "done").touch()
    return path


def dump(
    folder: Path,
    number: int,
    *,
    ids: Sequence[int] = tuple(range(1, 11)),
    columns: int = 8,
    name: str = "",
    done: bool = True,
    **changed: Any,
) -> Path:
    """A dump of version 3. changed: keys of meta.json that differ from what they should be."""
    path, tokens = folder / (name or f"req_{number}"), len(ids)
    path.mkdir(parents=True)
    raw = struct.pack(f"<{tokens}q", *ids)
    tensors: dict[str, tuple[bytes, tuple[int, ...], str]] = {
        f"{stem}.pt": (payload(tokens, columns, seed), (tokens, columns), "bfloat16")
        for seed, stem in enumerate(("aux_0", "aux_1", "aux_2", "final"))
    }
    tensors["input_ids.pt"] = (raw, (tokens,), "int64")
    for file, tensor in tensors.items():
        torchfile.write(path / file, *tensor)
    files = {file: record(path / file, data, [*shape], dtype) for file, (data, shape, dtype) in tensors.items()}
    meta = {
        **VERSION_3,
        "num_tokens": tokens,
        "hidden_size": columns,
        "counter": number,
        "timestamp": time.time(),
        "rid": f"rid-{number}",
        "ids_sha256": hashlib.sha256(raw).hexdigest(),
        "last_position": tokens - 1,
        "files": files,
    }
    (path / "meta.json").write_text(json.dumps({**meta, **changed}))
    if done:
        (path / "done").touch()
    return path


def record(path: Path, data: bytes, shape: list[int], dtype: str) -> dict[str, Any]:
    """The entry of one file in meta.json's `files`."""
    crc32 = zlib.crc32(data)
    return {"bytes": path.stat().st_size, "payload": len(data), "crc32": crc32, "shape": shape, "dtype": dtype}
