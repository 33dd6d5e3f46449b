"""Dumps made wrong on purpose, the way a faulty dumper would: sizes, checksums and metadata all agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from remote.dumps import tensorfile
from tests import torchfile
from tests.dumpfolder import record

KINDS = {"bfloat16": "<u2", "float16": "<f2", "float32": "<f4", "int64": "<i8"}
Fault = Callable[[Path], None]


def load(path: Path, name: str) -> Any:
    """The values, bfloat16 as their bits."""
    found = tensorfile.read(str(path / f"{name}.pt"))
    return np.frombuffer(found.rows_at(0, found.rows), KINDS[found.dtype]).reshape(found.shape).copy()


def save(path: Path, name: str, values: Any, dtype: str = "") -> None:
    """Another tensor in a dump that knows about it."""
    meta = json.loads((path / "meta.json").read_text())
    dtype = dtype or meta["files"][f"{name}.pt"]["dtype"]
    data = np.ascontiguousarray(values).tobytes()
    torchfile.write(path / f"{name}.pt", data, values.shape, dtype)
    meta["files"][f"{name}.pt"] = record(path / f"{name}.pt", data, list(values.shape), dtype)
    (path / "meta.json").write_text(json.dumps(meta))


def change(path: Path, **keys: Any) -> None:
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps({**meta, **keys}))


def digest(ids: Any) -> str:
    """ids_sha256 of ids."""
    return hashlib.sha256(np.ascontiguousarray(ids, "<i8").tobytes()).hexdigest()


def states(path: Path) -> list[str]:
    return [f"aux_{at}" for at in range(len(list(path.glob("aux_*.pt"))))] + ["final"]


def swapped_layers(path: Path) -> None:
    one, two = load(path, "aux_0"), load(path, "aux_2")
    save(path, "aux_0", two)
    save(path, "aux_2", one)


def rows_shifted_by_one(path: Path) -> None:
    for name in states(path):
        save(path, name, np.roll(load(path, name), 1, axis=0))


def partial_sums(path: Path) -> None:
    """What one rank of two holds before the all-reduce: about half of what the layers added since aux_0."""
    base = load(path, "aux_0")
    for name in states(path)[1:-1]:
        save(path, name, base + (load(path, name) - base) * np.float32(0.5))


def pre_norm_final(path: Path) -> None:
    """The last captured layer in place of the norm's output, of about the length it has before the norm."""
    save(path, "final", load(path, states(path)[-2]) * np.float32(1.2))


def final_of_another_norm(path: Path) -> None:
    """The right direction and length, but for the norm's weight."""
    final = load(path, "final")
    save(path, "final", final * np.linspace(0.9, 1.1, final.shape[1], dtype=final.dtype))


def ids_of_another_request(path: Path) -> None:
    ids = load(path, "input_ids")[::-1] + 1
    save(path, "input_ids", ids)
    change(path, ids_sha256=digest(ids))


def stale_ids_hash(path: Path) -> None:
    change(path, ids_sha256=hashlib.sha256(b"another prompt").hexdigest())


def merged_row(path: Path) -> None:
    """A health check's row in the pass, told as if it belonged to the prompt."""
    for name in (*states(path), "input_ids"):
        values = load(path, name)
        save(path, name, np.concatenate([values, values[:1]]))
    ids = load(path, "input_ids")
    change(path, num_tokens=len(ids), last_position=len(ids) - 1, ids_sha256=digest(ids))


def missing_first_rows(path: Path) -> None:
    """The radix cache had them."""
    for name in (*states(path), "input_ids"):
        save(path, name, load(path, name)[2:])
    ids = load(path, "input_ids")
    change(
        path,
        num_tokens=len(ids),
        first_position=2,
        last_position=len(ids) + 1,
        ids_sha256=digest(ids),
    )


def shortened_prompt(path: Path) -> None:
    """The server took less of it than it was sent."""
    for name in (*states(path), "input_ids"):
        save(path, name, load(path, name)[:-2])
    ids = load(path, "input_ids")
    change(path, num_tokens=len(ids), last_position=len(ids) - 1, ids_sha256=digest(ids))


def cut_short(path: Path) -> None:
    file = path / "aux_1.pt"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def a_flipped_bit(path: Path) -> None:
    found = tensorfile.read(str(path / "aux_1.pt"))
    data = bytearray((path / "aux_1.pt").read_bytes())
    data[found.offset + found.payload // 2] ^= 1
    (path / "aux_1.pt").write_bytes(data)


def a_wrong_crc_in_the_zip(path: Path) -> None:
    raw = bytearray((path / "aux_1.pt").read_bytes())
    entry = raw.rindex(b"PK\1\2", 0, raw.rindex(b"/data/0"))  # in the zip's directory
    raw[entry + 16] ^= 1
    (path / "aux_1.pt").write_bytes(raw)


def saved_from_a_view(path: Path) -> None:
    values = load(path, "aux_0")
    whole = np.concatenate([values] * 4)
    torchfile.write(
        path / "aux_0.pt", whole.tobytes(), values.shape, json.loads((path / "meta.json").read_text())["dtype"]
    )


def other_dtype(path: Path) -> None:
    save(path, "final", load(path, "final").astype("<f2"), "float16")


def _with(name: str, row: int, value: float) -> Fault:
    def fault(path: Path) -> None:
        values = load(path, name)
        values[row] = value if value == 0 else np.where(np.arange(values.shape[1]) == 1, value, values[row])
        save(path, name, values)

    return fault


nan, infinite, zero_row = _with("aux_2", 1, np.nan), _with("aux_1", 2, np.inf), _with("aux_0", 1, 0.0)
nan.__name__, infinite.__name__, zero_row.__name__ = "nan", "infinite", "zero_row"


def equal_layers(path: Path) -> None:
    save(path, "aux_1", load(path, "aux_0"))


def one_row_of_another_layer(path: Path) -> None:
    values = load(path, "aux_1")
    values[2] = load(path, "aux_0")[2]
    save(path, "aux_1", values)


def one_long_row(path: Path) -> None:
    values = load(path, "aux_1")
    values[2] *= 50
    save(path, "aux_1", values)


def no_done(path: Path) -> None:
    (path / "done").unlink()


# fault → the first level that finds it
FAULTS: dict[Fault, str] = {
    cut_short: "structure",
    a_flipped_bit: "structure",
    a_wrong_crc_in_the_zip: "structure",
    saved_from_a_view: "structure",
    other_dtype: "structure",
    missing_first_rows: "structure",
    stale_ids_hash: "content",
    nan: "content",
    infinite: "content",
    zero_row: "content",
    equal_layers: "content",
    one_row_of_another_layer: "content",
    one_long_row: "content",
    swapped_layers: "content",
    pre_norm_final: "content",
    partial_sums: "meaning",
    final_of_another_norm: "meaning",
    rows_shifted_by_one: "meaning",
    ids_of_another_request: "meaning",
    merged_row: "meaning",
}
LEVELS = ("structure", "content", "meaning")
