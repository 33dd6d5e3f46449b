"""Whose rows are whose, and what is captured of a pass."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch

from remote.dumper import reduction
from tests.engine.cases import case
from tests.engine.dumper_model import HIDDEN, Bench


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
            wanted = (ids + added).float()[:, None].expand(rows, HIDDEN)
            found = bench.tensor(done[rid], name)
            assert torch.equal(found, 2 * wanted if name == "final" else wanted)
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
def an_all_reduce_that_a_layer_deferred_is_made_up_for() -> None:
    sys.modules["sglang.srt.distributed"] = SimpleNamespace(  # type: ignore[assignment]
        tensor_model_parallel_all_reduce=lambda partial: partial.mul_(2)
    )
    partial, residual = torch.ones(3, HIDDEN), torch.full((3, HIDDEN), 5.0)
    assert torch.equal(reduction.stream(partial, residual), torch.full((3, HIDDEN), 6.0))
    assert reduction.stream(residual, None) is residual
    partial._sglang_needs_allreduce_fusion = True
    assert torch.equal(reduction.stream(partial, residual), torch.full((3, HIDDEN), 7.0))
    assert torch.equal(partial, torch.ones(3, HIDDEN)), "the next layer reduces it again"


@case
def what_the_final_norm_gets() -> None:
    bench = Bench(prenorm=True)
    bench.forward(bench.batch([3, 2], padding=3))
    for rid, number in bench.numbers("done").items():
        before, after = bench.tensor(number, "final_prenorm"), bench.tensor(number, "final")
        assert torch.equal(2 * before, after), rid
        assert before.shape == after.shape
    bench.model.norm(torch.ones(1, HIDDEN))
    bench.forward(bench.batch([4], rids=["next"]))
    assert bench.tensor(bench.numbers("done")["next"], "final_prenorm").shape[0] == 4


@case
def a_layer_that_the_loop_did_not_see() -> None:
    bench = Bench()
    bench.forward(bench.batch([3]), skip=3)
    assert "did not go through all layers" in bench.cause("r0")


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
    for mode in ("DECODE", "IDLE", "TARGET_VERIFY"):
        bench.forward(bench.batch([3], forward_mode=SimpleNamespace(name=mode)))
    bench.forward(bench.batch([3], rids=None))
    bench.forward(bench.batch([1], rids=["HEALTH_CHECK_1"]))
    assert not list(bench.folder.glob("req_*"))
    skipped = bench.stats.snapshot()["skipped"]
    assert skipped == {"TARGET_VERIFY pass": 1, "warm-up without request": 1, "health check": 1}


@case
def prompts_mixed_with_decoded_rows_are_told_once() -> None:
    bench, mixed = Bench(), SimpleNamespace(name="MIXED")
    for rids, lengths, prefixes, totals in (
        (["decoded", "whole", "long"], [1, 3, 4], [7, 0, 0], [8, 3, 9]),
        (["long", "decoded"], [4, 1], [4, 8], [9, 9]),
        (["long", "decoded"], [1, 1], [8, 9], [9, 10]),
    ):
        bench.forward(bench.batch(lengths, prefixes, rids=rids, totals=totals, forward_mode=mixed))
    assert set(bench.numbers("error")) == {"whole", "long"}
    assert len(list(bench.folder.glob("req_*"))) == 2
    assert "mixed chunks" in bench.cause("long")


@case
def a_health_check_merged_into_a_pass() -> None:
    bench = Bench()
    bench.forward(bench.batch([1, 4], rids=["HEALTH_CHECK_1", "r"]))
    assert bench.tensor(bench.numbers("done")["r"], "input_ids").tolist() == [1, 2, 3, 4]
    assert len(list(bench.folder.glob("req_*"))) == 1
