"""Memory for states that wait to be written, and writers that do not keep up."""

from __future__ import annotations

import json
import random
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from remote.dumper import dumper as module
from remote.dumper.passes import Inputs
from remote.dumper.pool import Pool
from tests.engine.cases import case
from tests.engine.dumper_model import Bench


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
def memory_that_is_not_there() -> None:
    """It costs the requests that need it, is not asked for in every pass, and is there again when it can be had."""
    for size, own in ((1 << 20, False), (4096, True)):  # the pool's, and a pass's own
        bench = Bench(pool=size)
        if own:
            bench.dumper._pool.warm(False)
        with mock.patch.object(torch, "empty", side_effect=RuntimeError("CUDA error: out of memory")) as empty:
            for number in range(3):
                bench.forward(bench.batch([3], rids=[f"r{number}"]))
                assert "no memory" in bench.cause(f"r{number}")
            assert empty.call_count == 1
            bench.forward(bench.batch([3], rids=["refused"], can_run_tbo=True))
            assert "two-batch overlap" in bench.cause("refused"), "it gets its error without ids too"
            assert empty.call_count == 1
        bench.dumper._pool._again = 0.0
        bench.forward(bench.batch([3], rids=["later"]))
        assert set(bench.numbers("done")) == {"later"}


def held_up(bench: Bench, cause: str, **of_a_pass: Any) -> None:
    """Passes while all of the pool is lent: the server waits once, and each request gets an error with that cause."""
    bench.dumper._patience = 0.3
    loan = bench.dumper._pool.lend(1 << 20, False, 0)
    assert loan is not None
    start = time.monotonic()
    for number in range(20):
        bench.forward(bench.batch([3], rids=[f"r{number}"], **of_a_pass))
    assert 0.3 <= time.monotonic() - start < 3, "the server waits once, not for each pass"
    loan.release()
    errors = [json.loads(path.read_text()) for path in bench.folder.glob("req_*/error")]
    assert len(errors) == 20
    assert all(cause in error["cause"] for error in errors)


@case
def writers_that_do_not_keep_up() -> None:
    bench = Bench()
    held_up(bench, "do not keep up")
    bench.forward(bench.batch([3], rids=["later"]))
    assert set(bench.numbers("done")) == {"later"}
    assert len(list(bench.folder.glob("req_*/error"))) == 20
    assert bench.dumper._patience == module._PATIENCE_S


@case
def requests_without_states_do_not_wait_for_writers_either() -> None:
    held_up(Bench(), "two-batch overlap", can_run_tbo=True)


@case
def inputs_that_fail_are_waited_for_all_the_same() -> None:
    """On CUDA the ids that were copied before the failure are on their way."""
    done: list[str] = []

    def add(name: str, tensor: Any, rows: int) -> None:
        done.append(name)
        assert tensor.shape[0] >= rows

    inputs = Inputs([], 3, torch.arange(3), torch.arange(2), None)
    copy: Any = SimpleNamespace(add=add, seal=lambda: done.append("sealed"))
    try:
        inputs.complete(copy)
    except AssertionError:
        done.append("failed")
    assert done == ["input_ids", "positions", "sealed", "failed"]
