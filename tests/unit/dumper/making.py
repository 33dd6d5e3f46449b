"""Requests and batches as the dumper meets them, without torch."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from remote.dumper.archive import Tensor
from remote.dumper.folder import Folder
from remote.dumper.problem import Problem
from remote.dumper.request import Desk, Origin, Part, Rank, Writing
from remote.dumper.room import Room

LAYERS = (1, 2, 3)
ORIGIN = Origin("boot", os.getpid(), LAYERS, "0.5.23", "0.1.0", "f" * 64)
RANK = Rank(0, 1, 8)


def desk(path: Path) -> Desk:
    return Desk(Folder(str(path)), Room(str(path)), ORIGIN)


def states(rows: int, hidden: int = 8, first: int = 0) -> dict[str, Tensor]:
    """What a pass holds of a request: float32 states, its ids and positions."""
    names = [*(f"aux_{at}" for at in range(len(LAYERS))), "final"]
    tensors = {
        name: Tensor(name, "float32", (rows, hidden), memoryview(os.urandom(rows * hidden * 4))) for name in names
    }
    for name, start in (("input_ids", 100 + first), ("positions", first)):
        values = struct.pack(f"<{rows}q", *range(start, start + rows))
        tensors[name] = Tensor(name, "int64", (rows,), memoryview(values))
    return tensors


def part(
    rows: int = 10,
    *,
    first: int = 0,
    tensors: dict[str, Tensor] | None = None,
    release: Callable[[], None] = lambda: None,
    problem: Problem | None = None,
) -> Part:
    return Part(rows, first, states(rows, first=first) if tensors is None else tensors, release, problem)


def write(desk: Desk, *parts: Part, rid: str | None = "r") -> Problem | None:
    """A request of these parts, from its first row to its end."""
    writing = Writing(desk, rid, RANK)
    for one in parts or (part(),):
        writing.add(one)
    return writing.finish()


def batch(lengths: list[int], prefixes: list[int] | None = None, **more: Any) -> SimpleNamespace:
    """A ForwardBatch of plain prefill."""
    known = {"rids": [f"r{at}" for at in range(len(lengths))], "extend_seq_lens": None, "extend_prefix_lens": None}
    return SimpleNamespace(
        **{
            **known,
            "extend_seq_lens_cpu": lengths,
            "extend_prefix_lens_cpu": prefixes or [0] * len(lengths),
            **more,
        }
    )
