"""Prompts that come in several passes."""

from __future__ import annotations

from unittest import mock

from remote.dumper import assembly
from tests.engine.cases import arguments, case
from tests.engine.dumper_model import Bench


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
def one_token_in_place_of_a_prompt_that_sglang_refused() -> None:
    """It has id 0, and the rid of the prompt. A chunk of one row, and a prompt that begins with that id, are others."""
    bench = Bench()
    bench.forward(bench.batch([1, 1, 2, 1], totals=[1, 1, 2, 9], rids=["refused", "one", "two", "long"]))
    ids = {rid: bench.tensor(number, "input_ids").tolist() for rid, number in bench.numbers("done").items()}
    assert ids == {"one": [1], "two": [2, 3]}
    assert "in its place" in bench.cause("refused")
    later = bench.batch([8], [1], totals=[9], rids=["long"])
    bench.forward(later)
    assert bench.tensor(bench.numbers("done")["long"], "input_ids").tolist() == [4, *range(8)]


@case
def what_can_not_be_told_of_a_prompt_is_its_error() -> None:
    bench = Bench()
    with mock.patch.object(assembly, "_in_place", side_effect=RuntimeError("an odd tensor")):
        bench.forward(bench.batch([3, 2], rids=["a", "b"]))
    assert set(bench.numbers("error")) == {"a", "b"}
    assert bench.dumper._pool._lent == 0, "what was lent to the pass is given back"


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


@case
def a_release_that_does_not_tell_where_prompts_end() -> None:
    for size, ends in ((-1, "done"), (None, "done"), (8192, "error")):
        with arguments(chunked_prefill_size=size):
            bench = Bench()
            batch = bench.batch([3])
            del batch.orig_seq_lens
            bench.forward(batch)
            assert set(bench.numbers(ends)) == {"r0"}
