"""The dumper's hooks with real tensors on the CPU: `python dumper_cases.py ROOT`, run by the engine's Python.

Prints one JSON object, case → "" or the traceback of its failure. Each case has a dump folder of its own.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, sys.argv[1])

from remote.dumper import dumper as module
from remote.dumper import release
from remote.dumper.batch import ChunkRule
from remote.dumper.dumper import Dumper
from remote.dumper.folder import Folder
from remote.dumper.request import Origin, Recorder
from remote.dumper.room import Room
from remote.dumper.stats import Stats
from remote.dumper.writers import Writers

HIDDEN = 16
CASES: list[Callable[[], None]] = []


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES.append(function)
    return function


class Bench:
    """A dumper and a model of four layers that adds 1 to its states in each of them, in place."""

    def __init__(self, layers: tuple[int, ...] = (1, 3), rank: int = 0, limit: int | None = None) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        release.tp_rank_and_size = lambda: (rank, 2)
        module.chunk_rule = lambda: ChunkRule(limit)  # type: ignore[attr-defined]
        origin = Origin("boot", os.getpid(), layers, "test", "0", "0")
        self.stats = Stats(str(self.folder))
        path = str(self.folder)
        self.writers = Writers(Recorder(Folder(path), Room(path), origin), self.stats)
        self.dumper = Dumper(layers, None, self.writers, self.stats)
        self.model = SimpleNamespace(layers=range(4), norm=SimpleNamespace(weight=torch.ones(HIDDEN)))
        self.evaluated: list[int] = []

    def batch(self, lengths: list[int], prefixes: list[int] | None = None, **more: Any) -> SimpleNamespace:
        prefixes = prefixes or [0] * len(lengths)
        rows = sum(lengths) + more.pop("padding", 0)
        positions = [p + at for length, p in zip(lengths, prefixes, strict=True) for at in range(length)]
        known = {
            "forward_mode": SimpleNamespace(name="EXTEND"),
            "rids": [f"r{at}" for at in range(len(lengths))],
            "extend_seq_lens_cpu": lengths,
            "extend_seq_lens": None,
            "extend_prefix_lens_cpu": prefixes,
            "extend_prefix_lens": None,
            "input_ids": torch.arange(rows),
            "positions": torch.tensor(positions + [0] * (rows - len(positions))),
        }
        return SimpleNamespace(**{**known, **more})

    def forward(self, batch: SimpleNamespace, ids: Any = None, skip: int = -1, owed: int = -1, rows: int = 0) -> None:
        hidden = torch.arange(len(batch.input_ids), dtype=torch.float32)[:, None].repeat(1, HIDDEN)
        hidden = hidden[rows:]
        dump = self.dumper.begin(self.model, ids, batch.positions, batch)
        for i in range(4):
            if dump is not None and i in dump.layers and i != skip:
                hidden._sglang_needs_allreduce_fusion = i == owed
                dump.capture(i, lambda: self.seen(i, hidden))  # noqa: B023 - evaluated at once
            hidden += 1
        if dump is not None:
            dump.finish(hidden)
        hidden.fill_(-1)  # buffers are reused at once
        batch.input_ids.fill_(-1)
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


@case
def each_request_has_its_own_rows() -> None:
    bench = Bench()
    bench.forward(bench.batch([3, 1, 5], padding=7))
    done = bench.numbers("done")
    assert set(done) == {"r0", "r1", "r2"}
    for rid, start, rows in (("r0", 0, 3), ("r1", 3, 1), ("r2", 4, 5)):
        ids = torch.arange(start, start + rows)
        assert torch.equal(bench.tensor(done[rid], "input_ids"), ids)
        for name, added in (("aux_0", 1), ("aux_1", 3), ("final", 4)):
            assert torch.equal(bench.tensor(done[rid], name), (ids + added).float()[:, None].expand(rows, HIDDEN))
        assert bench.meta(done[rid])["last_position"] == rows - 1


@case
def other_types_and_ids_from_the_batch() -> None:
    bench = Bench(layers=(1,))
    batch = bench.batch([4])
    batch.input_ids = batch.input_ids.to(torch.int32)
    dump = bench.dumper.begin(bench.model, None, batch.positions, batch)
    assert dump is not None
    states = torch.randn(4, HIDDEN, dtype=torch.bfloat16)
    dump.capture(1, lambda: states.T.contiguous().T)
    dump.finish(states)
    assert bench.writers.drain(20)
    assert torch.equal(bench.tensor(0, "aux_0"), states)
    assert bench.tensor(0, "aux_0").is_contiguous()
    assert bench.tensor(0, "input_ids").tolist() == [0, 1, 2, 3]
    assert bench.meta(0)["dtype"] == "bfloat16"


@case
def other_ranks_evaluate_and_write_nothing() -> None:
    bench = Bench(rank=1)
    bench.forward(bench.batch([3]))
    assert bench.evaluated == [1, 3]
    assert not list(bench.folder.iterdir())


@case
def a_deferred_all_reduce_is_no_hidden_state() -> None:
    bench = Bench()
    bench.forward(bench.batch([3, 3]), owed=3)
    assert set(bench.numbers("error")) == {"r0", "r1"}
    assert "all-reduce was deferred" in bench.cause("r0")
    assert bench.evaluated == [1, 3]


@case
def a_layer_that_the_loop_did_not_see() -> None:
    bench = Bench()
    bench.forward(bench.batch([3]), skip=3)
    assert "did not go through all layers" in bench.cause("r0")


@case
def rows_scattered_across_ranks() -> None:
    bench = Bench()
    bench.forward(bench.batch([8]), rows=4)
    assert "scattered" in bench.cause("r0")


@case
def what_a_capture_raises_stays_out_of_the_forward() -> None:
    bench = Bench()
    batch = bench.batch([3])
    dump = bench.dumper.begin(bench.model, None, batch.positions, batch)
    assert dump is not None
    dump.capture(1, lambda: 1 // 0)
    dump.capture(3, lambda: bench.seen(3, torch.ones(3, HIDDEN)))
    dump.finish(torch.ones(3, HIDDEN))
    assert bench.writers.drain(20)
    assert bench.evaluated == [3], "collectives go on"
    assert "division" in bench.meta(0, "error")["detail"]


@case
def a_batch_of_tomorrow_stays_out_of_the_forward() -> None:
    bench = Bench()
    assert bench.dumper.begin(bench.model, None, None, SimpleNamespace()) is None
    assert sum(bench.stats.snapshot()["errors"].values()) == 1


@case
def passes_that_are_not_plain_prefill() -> None:
    bench = Bench()
    for mode in ("DECODE", "IDLE", "MIXED", "TARGET_VERIFY"):
        bench.forward(bench.batch([3], forward_mode=SimpleNamespace(name=mode)))
    bench.forward(bench.batch([3], rids=None))
    bench.forward(bench.batch([1], rids=["HEALTH_CHECK_1"]))
    assert not list(bench.folder.glob("req_*"))
    skipped = bench.stats.snapshot()["skipped"]
    assert skipped == {"MIXED pass": 1, "TARGET_VERIFY pass": 1, "warm-up without request": 1, "health check": 1}


@case
def a_health_check_merged_into_a_pass() -> None:
    bench = Bench()
    bench.forward(bench.batch([1, 4], rids=["HEALTH_CHECK_1", "r"]))
    assert bench.tensor(bench.numbers("done")["r"], "input_ids").tolist() == [1, 2, 3, 4]
    assert len(list(bench.folder.glob("req_*"))) == 1


@case
def a_prompt_in_chunks_is_one_error() -> None:
    bench = Bench(limit=8)
    bench.forward(bench.batch([2, 6], rids=["whole", "long"]))
    bench.forward(bench.batch([8], [6], rids=["long"]))
    bench.forward(bench.batch([3, 2], [14, 0], rids=["long", "next"]))
    assert set(bench.numbers("done")) == {"whole", "next"}
    assert len(list(bench.folder.glob("req_*/error"))) == 1
    assert "cut" in bench.cause("long")


@case
def a_prompt_in_chunks_is_one_error_without_rids_too() -> None:
    bench = Bench(limit=8)
    for lengths, prefixes in (([2, 6], [0, 0]), ([8], [6]), ([3, 2], [14, 0])):
        batch = bench.batch(lengths, prefixes)
        del batch.rids
        bench.forward(batch)
    assert len(list(bench.folder.glob("req_*/error"))) == 1
    assert len(list(bench.folder.glob("req_*/done"))) == 2


@case
def cached_rows_are_missing_rows() -> None:
    bench = Bench()
    bench.forward(bench.batch([4], [6]))
    assert "first rows are missing" in bench.cause("r0")


@case
def stages_of_a_pipeline_say_it_once() -> None:
    for stage in (0, 1):
        bench = Bench()
        bench.model.pp_group = SimpleNamespace(rank_in_group=stage, world_size=2)
        bench.forward(bench.batch([3]))
        assert len(bench.numbers("error")) == (stage == 0)
        assert bench.stats.snapshot()["refused"]


@case
def layers_that_the_model_has_not() -> None:
    bench = Bench(layers=(1, 31))
    bench.forward(bench.batch([3]))
    assert bench.cause("r0") == bench.stats.snapshot()["refused"] == "the model has no such layer"
    assert bench.evaluated == []


@case
def two_batch_overlap_and_scattered_attention() -> None:
    bench = Bench()
    bench.forward(bench.batch([3], can_run_tbo=True, rids=["a"]))
    bench.forward(bench.batch([3], global_num_tokens_cpu=[3, 0], rids=["b"]))
    assert "two-batch overlap" in bench.cause("a")
    assert "data-parallel attention" in bench.cause("b")


@case
def writers_that_do_not_keep_up() -> None:
    bench = Bench()
    module._PATIENCE_S = 0.05
    assert bench.dumper._budget.take(1 << 40, 0)
    bench.forward(bench.batch([3]))
    assert "do not keep up" in bench.cause("r0")
    bench.dumper._budget.give_back(1 << 40)
    bench.forward(bench.batch([3], rids=["later"]))
    assert set(bench.numbers("done")) == {"later"}


def outcome(function: Callable[[], None]) -> str:
    try:
        function()
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps({function.__name__: outcome(function) for function in CASES}))
