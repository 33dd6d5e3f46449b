"""Model folders with weights in safetensors, made without that library."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "<u1"}


def bits(values: Any, dtype: str) -> bytes:
    """`values` (float32) as they lie in a file of `dtype`."""
    if dtype == "BF16":
        return bytes((np.ascontiguousarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes())
    return bytes(np.ascontiguousarray(values).astype(KINDS[dtype]).tobytes())


def safetensors(path: Path, weights: dict[str, Any], dtype: str = "F32") -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in weights.items():
        raw = bits(values, dtype)
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def model(folder: Path, weights: dict[str, Any], dtype: str = "F32", **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    safetensors(folder / "model.safetensors", weights, dtype)
    return folder
