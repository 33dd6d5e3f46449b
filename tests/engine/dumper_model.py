"""A dumper and a small model that runs through its hooks, with real tensors on the CPU."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from types import SimpleNamespace
from typing import Any

import torch

from remote.dumper import release
from remote.dumper.dumper import Dumper
from remote.dumper.folder import Folder
from remote.dumper.request import Desk, Origin
from remote.dumper.room import Room
from remote.dumper.settings import Settings
from remote.dumper.stats import Stats
from remote.dumper.writers import Writers

HIDDEN = 16


class Norm(torch.nn.Module):  # type: ignore[misc]
    """Doubles. It takes the states, or what the last layer added and what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(HIDDEN))

    def forward(self, states: Any, residual: Any = None) -> Any:
        return 2 * (states if residual is None else states + residual)


class Bench:
    """A dumper and a model of four layers that adds 1 to its states in each of them, in place."""

    def __init__(
        self, layers: tuple[int, ...] = (1, 3), rank: int = 0, model: str = "DeepseekV2Model", **more: Any
    ) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        release.tp_rank_and_size = lambda: (rank, 2)
        settings = Settings(str(self.folder), layers, **{"pool": 1 << 20, **more})
        origin = Origin("boot", os.getpid(), layers, "test", "0", "0")
        self.stats = Stats(str(self.folder))
        self.writers = Writers()

        def desk(writes: bool, rank: int) -> Desk:
            place = self.folder if writes else self.folder / ".ranks" / str(rank)
            return Desk(Folder(str(place)), Room(str(self.folder)), origin)

        self.told: list[str] = []
        self.dumper = Dumper(settings, desk, self.writers, self.stats, lambda problem: self.told.append(problem.cause))
        self.model = type(model, (SimpleNamespace,), {})(layers=range(4), norm=Norm())
        self.evaluated: list[int] = []

    def batch(self, lengths: list[int], prefixes: list[int] | None = None, **more: Any) -> SimpleNamespace:
        """A pass of prefill. totals: whole lengths of the prompts, where they are more than the pass has."""
        prefixes = prefixes or [0] * len(lengths)
        rows = sum(lengths) + more.pop("padding", 0)
        positions = [p + at for length, p in zip(lengths, prefixes, strict=True) for at in range(length)]
        whole = [length + prefix for length, prefix in zip(lengths, prefixes, strict=True)]
        known = {
            "forward_mode": SimpleNamespace(name="EXTEND"),
            "rids": [f"r{at}" for at in range(len(lengths))],
            "extend_seq_lens_cpu": lengths,
            "extend_seq_lens": None,
            "extend_prefix_lens_cpu": prefixes,
            "extend_prefix_lens": None,
            "orig_seq_lens": torch.tensor(more.pop("totals", whole), dtype=torch.int32),
            "input_ids": torch.arange(rows),
            "positions": torch.tensor(positions + [0] * (rows - len(positions))),
        }
        return SimpleNamespace(**{**known, **more})

    def forward(self, batch: SimpleNamespace, ids: Any = None, skip: int = -1, rows: int = 0, end: bool = True) -> None:
        hidden = torch.arange(len(batch.input_ids), dtype=torch.float32)[:, None].repeat(1, HIDDEN)
        hidden = hidden[rows:]
        dump = self.dumper.begin(self.model, ids, batch.positions, batch)
        for i in range(4):
            if dump is not None and i in dump.layers and i != skip:
                dump.capture(i, lambda: self.seen(i, hidden))  # noqa: B023 - evaluated at once
            hidden += 1
        final = self.model.norm(hidden)
        if dump is not None and end:
            dump.finish(final)
        hidden.fill_(-1)  # buffers are reused at once
        final.fill_(-1)
        batch.input_ids.fill_(-1)
        batch.positions.fill_(-1)
        if hasattr(batch, "orig_seq_lens"):
            batch.orig_seq_lens.fill_(-1)
        assert self.writers.drain(20)

    def seen(self, layer: int, states: Any) -> Any:
        self.evaluated.append(layer)
        return states

    def meta(self, number: int, name: str = "meta.json") -> Any:
        return json.loads((self.folder / f"req_{number}" / name).read_text())

    def tensor(self, number: int, name: str) -> Any:
        path = self.folder / f"req_{number}" / f"{name}.pt"
        mapped = torch.load(path, weights_only=True, mmap=True)
        loaded = torch.load(path, weights_only=True)
        assert torch.equal(mapped, loaded)
        return loaded

    def numbers(self, kind: str) -> dict[str, int]:
        """rid → N of all requests that ended so."""
        found = [int(path.parent.name[4:]) for path in self.folder.glob(f"req_*/{kind}")]
        return {self.meta(number)["rid"]: number for number in found}

    def cause(self, rid: str) -> str:
        return str(self.meta(self.numbers("error")[rid], "error")["cause"])
