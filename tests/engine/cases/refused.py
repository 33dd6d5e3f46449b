"""What can not be dumped rightly is said, and not dumped."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from tests.engine.cases import arguments, case
from tests.engine.dumper_model import HIDDEN, Bench


@case
def what_is_refused_is_refused_before_the_weights_are_loaded() -> None:
    with arguments(pp_size=2):
        bench = Bench()
        bench.dumper.prepare(torch.device("cpu"))
        assert bench.told == ["pipeline parallelism can not be dumped"]
        assert bench.stats.snapshot()["refused"] == bench.told[0]
        bench.forward(bench.batch([3]))
        assert bench.cause("r0") == bench.told[0]
        assert bench.evaluated == []


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
def two_batch_overlap_and_passes_that_ranks_share() -> None:
    bench = Bench()
    bench.forward(bench.batch([3], can_run_tbo=True, rids=["a"]))
    bench.forward(bench.batch([3], global_num_tokens_cpu=[3, 0], rids=["b"]))
    assert "two-batch overlap" in bench.cause("a")
    assert "ranks share" in bench.cause("b")


@case
def rows_that_are_no_tokens() -> None:
    bench = Bench()
    bench.forward(bench.batch([3, 2], rids=["image", "text"], mm_input_embeds=torch.ones(5, HIDDEN)))
    bench.forward(bench.batch([3], rids=["embeddings"], input_embeds=torch.ones(3, HIDDEN)))
    assert set(bench.numbers("error")) == {"image", "text", "embeddings"}
    assert "images" in bench.cause("image")
    bench.forward(bench.batch([3], rids=["next"], contains_mm_inputs=lambda: False, mm_input_embeds=None))
    assert set(bench.numbers("done")) == {"next"}
