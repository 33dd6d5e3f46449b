"""Several ranks: who writes, and whose rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from remote.dumper import release
from tests.engine.cases import arguments, case
from tests.engine.dumper_model import HIDDEN, Bench


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
def rows_scattered_across_ranks() -> None:
    bench = Bench()
    bench.forward(bench.batch([8]), rows=4)
    assert "scattered" in bench.cause("r0")


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
