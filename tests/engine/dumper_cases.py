"""The dumper's hooks with real tensors on the CPU: `python dumper_cases.py ROOT`, run by the engine's Python.

Prints one JSON object, case → "" or the traceback of its failure. Each case has a dump folder of its own.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, sys.argv[1])

from remote.dumper import dumper as module
from remote.dumper import reduction, release
from remote.dumper.pool import Pool
from tests.engine.dumper_model import HIDDEN, Bench

CASES: list[Callable[[], None]] = []


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES.append(function)
    return function


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
def other_ranks_evaluate_and_write_nothing() -> None:
    bench = Bench(rank=1)
    bench.forward(bench.batch([3]))
    assert bench.evaluated == [1, 3]
    assert not list(bench.folder.iterdir())


@case
def ranks_above_0_write_the_canary_and_nothing_else() -> None:
    bench = Bench(rank=1)
    bench.forward(bench.batch([3]))
    (bench.folder / ".canary").write_text("canary-1\n")
    bench.forward(bench.batch([3, 5], rids=["canary-1", "other"]))
    (request,) = bench.folder.glob(".ranks/1/req_*")
    meta = json.loads((request / "meta.json").read_text())
    assert (meta["rid"], meta["tp_rank"], meta["num_tokens"]) == ("canary-1", 1, 3)
    (bench.folder / ".canary").write_text(meta["ids_sha256"])
    batch = bench.batch([3])
    del batch.rids
    bench.forward(batch)
    (bench.folder / ".canary").unlink()
    bench.forward(bench.batch([3], rids=["canary-1"]))
    assert len(list(bench.folder.glob(".ranks/1/req_*/done"))) == 2
    assert not list(bench.folder.glob("req_*"))


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


def chunks(bench: Bench, rids: bool = True) -> None:
    """A prompt of 17 tokens in three passes, after, before and among others."""
    for names, lengths, prefixes, totals in (
        (["whole", "long"], [2, 6], [0, 0], [2, 17]),
        (["long"], [8], [6], [17]),
        (["long", "next"], [3, 5], [14, 0], [17, 5]),
    ):
        batch = bench.batch(lengths, prefixes, totals=totals, rids=names)
        if not rids:
            del batch.rids
        bench.forward(batch)


@case
def a_prompt_in_chunks_is_one_dump() -> None:
    for rids in (True, False):
        bench = Bench()
        chunks(bench, rids)
        metas = {meta["num_tokens"]: meta for meta in map(bench.meta, range(3))}
        assert set(metas) == {2, 17, 5}
        meta = metas[17]
        assert (meta["first_position"], meta["last_position"]) == (0, 16)
        ids = [*range(2, 8), *range(8), *range(3)]
        assert bench.tensor(meta["counter"], "input_ids").tolist() == ids
        assert bench.tensor(meta["counter"], "aux_1")[:, 0].tolist() == [number + 3.0 for number in ids]
        assert bench.stats.snapshot()["dumped"] == 3


@case
def a_pass_that_is_just_full_ends_its_last_prompt() -> None:
    bench = Bench()
    bench.forward(bench.batch([2, 6], totals=[2, 6]))
    assert len(bench.numbers("done")) == 2


@case
def a_prompt_whose_rest_never_comes_is_an_error() -> None:
    bench = Bench()
    bench.forward(bench.batch([6], totals=[17], rids=["long"]))
    assert not list(bench.folder.glob("req_*"))
    bench.forward(bench.batch([4], rids=["next"]))
    assert set(bench.numbers("done")) == {"next"}
    assert "never came" in bench.cause("long")
    assert not list(bench.folder.glob(".req_*"))


@case
def a_chunk_that_fails_is_one_error() -> None:
    bench = Bench()
    bench.forward(bench.batch([6], totals=[17], rids=["long"]))
    bench.forward(bench.batch([8], [6], totals=[17], rids=["long"]), skip=1)
    bench.forward(bench.batch([3], [14], totals=[17], rids=["long"]))
    assert not bench.numbers("done")
    assert "did not go through all layers" in bench.cause("long")
    assert len(list(bench.folder.glob("req_*"))) == 1
    assert bench.meta(bench.numbers("error")["long"])["num_tokens"] == 17


@case
def a_pass_that_the_model_left_early() -> None:
    bench = Bench()
    bench.forward(bench.batch([3]), end=False)
    assert not list(bench.folder.glob("req_*"))
    bench.forward(bench.batch([3], rids=["next"]))
    assert "did not come to its end" in bench.cause("r0")
    assert set(bench.numbers("done")) == {"next"}


@contextlib.contextmanager
def arguments(**known: Any) -> Iterator[None]:
    """What the server was started with."""
    real = release.option
    release.option = lambda name: known.get(name, release.MISSING)
    try:
        yield
    finally:
        release.option = real


@case
def a_release_that_does_not_tell_where_prompts_end() -> None:
    for size, ends in ((-1, "done"), (None, "done"), (8192, "error")):
        with arguments(chunked_prefill_size=size):
            bench = Bench()
            batch = bench.batch([3])
            del batch.orig_seq_lens
            bench.forward(batch)
            assert set(bench.numbers(ends)) == {"r0"}


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
def memory_is_lent_once() -> None:
    pool, dice = Pool(1 << 20), random.Random(3)
    held: dict[int, Any] = {}
    for number in range(3000):
        loan = pool.lend(dice.randrange(1, 200_000), False, 0)
        if loan is not None:
            loan.memory.fill_(number % 251)
            held[number] = loan
        for old in dice.sample(sorted(held), min(len(held), dice.randrange(3) if loan else 2)):
            gone = held.pop(old)
            assert bool((gone.memory == old % 251).all()), "somebody else wrote there"
            gone.release()
    for loan in held.values():
        loan.release()
    assert pool._free == [(0, 1 << 20)]


@case
def the_pool_is_ready_before_the_first_pass() -> None:
    bench = Bench()
    bench.dumper.prepare(torch.device("cpu"))
    deadline = time.monotonic() + 5
    while bench.dumper._pool._memory is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    bench.forward(bench.batch([3]))
    told = bench.stats.snapshot()
    assert (told["passes"], told["requests"], told["dumped"]) == (1, 1, 1)
    assert 0 < told["forward_seconds"] < 1


@case
def passes_larger_than_the_pool() -> None:
    bench = Bench(pool=4096)
    for number in range(3):
        bench.forward(bench.batch([1000, 500], rids=[f"a{number}", f"b{number}"]))
    assert len(bench.numbers("done")) == 6
    assert bench.dumper._pool._lent == 0
    assert bench.dumper._pool._free == [(0, 4096)]


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


@contextlib.contextmanager
def attention_of_several(version: str = "0.5.23", size: int = 1) -> Iterator[None]:
    """A server with data-parallel attention; each of its parts of `size` ranks has requests of its own."""
    kept = release.version, release.attention_rank, release.attention_size
    release.version, release.attention_rank, release.attention_size = lambda: version, lambda: 0, lambda: size
    try:
        with arguments(attn_dp_size=2):
            yield
    finally:
        release.version, release.attention_rank, release.attention_size = kept


GATHERED: dict[str, Any] = {"is_extend_in_batch": True, "global_num_tokens_cpu": [8, 3]}


@case
def each_rank_of_data_parallel_attention_writes_its_own_requests() -> None:
    for rank in (0, 1):
        with attention_of_several():
            bench = Bench(rank=rank)
            bench.forward(bench.batch([3, 2], padding=3, **GATHERED))
            assert set(bench.numbers("done")) == {"r0", "r1"}
            assert bench.meta(bench.numbers("done")["r1"])["tp_rank"] == rank


@case
def a_rank_with_nothing_to_dump_captures_with_the_others() -> None:
    for told in (
        {"forward_mode": SimpleNamespace(name="IDLE")},
        {"forward_mode": SimpleNamespace(name="DECODE")},
        {"_original_forward_mode": SimpleNamespace(name="IDLE")},
        {"rids": None},
        {"rids": ["HEALTH_CHECK_1"]},
        {"extend_seq_lens_cpu": object()},  # what the dumper does not understand
    ):
        with attention_of_several():
            bench = Bench()
            bench.forward(bench.batch([3], **GATHERED, **told))
            assert bench.evaluated == [1, 3], told
            assert not list(bench.folder.glob("req_*")), told
    with attention_of_several():
        bench = Bench()
        bench.forward(bench.batch([3], **GATHERED, input_embeds=torch.ones(3, HIDDEN)))
        assert "images" in bench.cause("r0")
        assert bench.evaluated == [1, 3], "a problem of this rank alone"


@case
def ranks_that_all_have_nothing_to_dump_capture_nothing() -> None:
    with attention_of_several():
        bench = Bench()
        for name in ("IDLE", "DECODE"):
            bench.forward(bench.batch([3], is_extend_in_batch=False, forward_mode=SimpleNamespace(name=name)))
        assert bench.evaluated == []
        bench.forward(bench.batch([3], global_num_tokens_cpu=[3, 0]))
        assert bench.evaluated == []
        assert "do not know of this prompt" in bench.cause("r0")


@case
def rows_of_other_ranks_among_a_rank_s_own() -> None:
    with attention_of_several():
        bench = Bench()
        batch = bench.batch([3], **GATHERED)
        dump = bench.dumper.begin(bench.model, None, batch.positions, batch)
        assert dump is not None
        dump.capture(1, lambda: torch.ones(11, HIDDEN))
        dump.capture(3, lambda: torch.ones(3, HIDDEN))
        dump.finish(torch.ones(3, HIDDEN))
        assert bench.writers.drain(20)
        assert "gathered from several ranks" in bench.cause("r0")


@case
def data_parallel_attention_that_was_never_seen_right_is_refused() -> None:
    for version, model, size in (
        ("0.5.19", "DeepseekV2Model", 1),
        ("0.5.24", "DeepseekV2Model", 1),
        ("0.5.23", "Qwen3MoeModel", 1),
        ("0.5.23", "DeepseekV2Model", 2),
    ):
        with attention_of_several(version, size):
            bench = Bench(model=model)
            bench.forward(bench.batch([3], **GATHERED))
            assert "data-parallel attention" in bench.cause("r0")
            assert bench.evaluated == []


@case
def writers_that_do_not_keep_up() -> None:
    bench = Bench()
    bench.dumper._patience = 0.3
    loan = bench.dumper._pool.lend(1 << 20, False, 0)
    assert loan is not None
    start = time.monotonic()
    for number in range(20):
        bench.forward(bench.batch([3], rids=[f"r{number}"]))
    assert 0.3 <= time.monotonic() - start < 3, "the server waits once, not for each pass"
    loan.release()
    bench.forward(bench.batch([3], rids=["later"]))
    assert set(bench.numbers("done")) == {"later"}
    errors = [json.loads(path.read_text()) for path in bench.folder.glob("req_*/error")]
    assert len(errors) == 20
    assert all("do not keep up" in error["cause"] for error in errors)
    assert bench.dumper._patience == module._PATIENCE_S


@case
def rows_that_are_no_tokens() -> None:
    bench = Bench()
    bench.forward(bench.batch([3, 2], rids=["image", "text"], mm_input_embeds=torch.ones(5, HIDDEN)))
    bench.forward(bench.batch([3], rids=["embeddings"], input_embeds=torch.ones(3, HIDDEN)))
    assert set(bench.numbers("error")) == {"image", "text", "embeddings"}
    assert "images" in bench.cause("image")
    bench.forward(bench.batch([3], rids=["next"], contains_mm_inputs=lambda: False, mm_input_embeds=None))
    assert set(bench.numbers("done")) == {"next"}


def outcome(function: Callable[[], None]) -> str:
    try:
        function()
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps({function.__name__: outcome(function) for function in CASES}))
