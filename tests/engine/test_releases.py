"""Real servers of several releases and set-ups: every tensor of every request against transformers in fp32."""

from __future__ import annotations

import fcntl
import json
import random
from pathlib import Path

import pytest

from console.demo.engine import Engine

from . import releases
from .releases import Server, compared, serving
from .server import wait_for

LIMIT = 1e-5  # relative error
RANKS = ("--tp-size=2",)
ATTENTION = (*RANKS, "--dp-size=2", "--enable-dp-attention")
TWO_CORES = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
CHUNKS = ("--chunked-prefill-size=2048",)
FEW_ROWS = ("--chunked-prefill-size=512",)  # of two ranks: 256 each
WHOLE = ("--chunked-prefill-size=-1",)
NO_CACHE = "--disable-radix-cache"
TENSORS = {"aux_0", "aux_1", "aux_2", "final"}


def prompts(count: int = 32, longest: int = 600) -> dict[str, list[int]]:
    dice = random.Random("prompts")
    return {f"r{k}": [dice.randrange(2, 512) for _ in range(dice.randint(1, longest))] for k in range(count)}


def prove(server: Server, engine: Engine, sent: dict[str, list[int]], tensors: set[str] = TENSORS) -> None:
    """One whole dump for each prompt, each tensor as transformers computes it. Ends the server."""
    metas = server.ended(len(sent))
    server.stop()  # it would take half of the cores from what comes now, asked or not
    assert [meta["error"] for meta in metas if meta["error"]] == []
    found = compared(engine, server.folder)
    by_ids = {tuple(one["ids"]): one["errors"] for one in found.values()}
    assert set(by_ids) == {tuple(ids) for ids in sent.values()}
    assert all(set(errors) == tensors for errors in by_ids.values())
    errors = [error for errors in by_ids.values() for error in errors.values()]
    assert all(error <= LIMIT for error in errors), errors  # each: NaN hides from max()
    print(f"{len(sent)} requests, largest relative error {max(errors):.1e}")


def dumped(server: Server) -> int:
    """By the counters, which are written once a second."""
    stats = [json.loads(path.read_text()) for path in server.folder.glob(".stats/*.json")]
    return sum(one["dumped"] for one in stats)


@pytest.mark.parametrize("longest", [5000, pytest.param(10_000, marks=pytest.mark.matrix)])  # takes its square
def test_prompts_in_chunks_are_whole_dumps(engine: Engine, tmp_path: Path, longest: int) -> None:
    sent = prompts(8) | {"long": [2 + 7 * at % 510 for at in range(longest)]}
    with serving(engine, "0.5.23", tmp_path, *CHUNKS, NO_CACHE, env={"SGLANG_HS_DUMP_PRENORM": "1"}) as server:
        server.ask_all(sent)
        assert {meta["rid"]: meta["num_tokens"] for meta in server.ended(9)}["long"] == longest
        wait_for("count of them", lambda: dumped(server) == 9)
        assert "pool of" in server.log.read_text()
        prove(server, engine, sent, TENSORS | {"final_prenorm"})


@pytest.mark.parametrize(
    ("version", "flags", "every"),
    [
        ("0.5.23", FEW_ROWS, 3),
        pytest.param("0.5.23", FEW_ROWS, 1, marks=pytest.mark.matrix),
        pytest.param("0.5.23", WHOLE, 1, marks=pytest.mark.matrix),
        pytest.param("0.5.20", WHOLE, 1, marks=pytest.mark.matrix),
        pytest.param("0.5.20", FEW_ROWS, 1, marks=pytest.mark.matrix),
    ],
)
def test_two_ranks_of_data_parallel_attention(
    engine: Engine, tmp_path: Path, version: str, flags: tuple[str, ...], every: int
) -> None:
    """Each has requests of its own; while one prefills, the other does so too, decodes, or has nothing to do."""
    several = dict(list(prompts().items())[::every])
    sent = {"alone": [5, 6, 7], "long": [2 + 7 * at % 510 for at in range(1500)], **several}
    env = {**TWO_CORES, "SGLANG_HS_DUMP_PRENORM": "1"}
    flags = (*flags, NO_CACHE, *ATTENTION)
    with serving(engine, version, tmp_path, *flags, changes=("idle",), env=env) as server:
        server.ask("alone", sent["alone"])
        server.ask_all({rid: ids for rid, ids in sent.items() if rid != "alone"})
        assert {meta["tp_rank"] for meta in server.ended(len(sent))} == {0, 1}, "each rank writes"
        prove(server, engine, sent, TENSORS | {"final_prenorm"})


@pytest.mark.matrix
def test_two_replicas_never_share_a_number(engine: Engine, tmp_path: Path) -> None:
    """Each has all layers, requests of its own and a writer of its own; the folder is one."""
    sent = prompts()
    with serving(engine, "0.5.23", tmp_path, *WHOLE, NO_CACHE, "--dp-size=2", env=TWO_CORES) as server:
        server.ask_all(sent)
        metas = server.ended(len(sent))
        assert len({meta["pid"] for meta in metas}) == 2
        assert {meta["counter"] for meta in metas} == set(range(len(sent)))
        prove(server, engine, sent)


@pytest.mark.matrix
@pytest.mark.parametrize("version", releases.RELEASES)
@pytest.mark.parametrize("flags", [WHOLE, CHUNKS], ids=["whole", "chunks"])
def test_one_rank(engine: Engine, tmp_path: Path, version: str, flags: tuple[str, ...]) -> None:
    sent = prompts() | ({"long": [2 + 7 * at % 510 for at in range(5000)]} if flags == CHUNKS else {})
    with serving(engine, version, tmp_path, *flags, NO_CACHE) as server:
        server.ask_all(sent)
        prove(server, engine, sent)


@pytest.mark.matrix
@pytest.mark.parametrize("version", releases.RELEASES)
def test_two_ranks_that_defer_their_all_reduce(engine: Engine, tmp_path: Path, version: str) -> None:
    """0.5.23 does so by itself; older releases are made to."""
    changes = () if version == "0.5.23" else ("defer",)
    sent = prompts()
    with serving(engine, version, tmp_path, *WHOLE, NO_CACHE, *RANKS, changes=changes, env=TWO_CORES) as server:
        (server.folder / ".canary").write_text("r0\nr1\n")
        server.ask_all(sent)
        other = Server(server.folder / ".ranks" / "1", "", server._process, server.log)
        named = version not in ("0.5.9",)  # its passes carry no request ids
        if named:
            assert {meta["rid"] for meta in other.ended(2)} == {"r0", "r1"}
        prove(server, engine, sent)
        assert ("leave their all-reduce to the next one" in server.log.read_text()) == (version != "0.5.23")
        if named:
            prove(other, engine, {rid: sent[rid] for rid in ("r0", "r1")})


@pytest.mark.matrix
def test_a_full_pool_holds_the_server_up_once(engine: Engine, tmp_path: Path) -> None:
    """Nobody writes while 24 prompts of 2,000 tokens come, of which the smallest pool holds at most sixteen."""
    sent = {f"r{k}": [2 + (7 * at + k) % 510 for at in range(2000)] for k in range(24)}
    with serving(engine, "0.5.23", tmp_path, *WHOLE, NO_CACHE, env={"SGLANG_HS_DUMP_POOL_MIB": "64"}) as server:
        server.ask("before", [5, 6, 7])
        server.ended(1)
        with (server.folder / ".counter").open() as counter:
            fcntl.flock(counter, fcntl.LOCK_EX)
            server.ask_all(sent, 4)
            assert len(server.metas()) == 1, "all are answered, none is written"
        metas = {meta["rid"]: meta for meta in server.ended(25)}
        causes = [meta["error"]["cause"] for meta in metas.values() if meta["error"]]
        assert set(causes) == {"the writers do not keep up with the server"}
        assert 8 <= len(causes) <= 12
        server.ask("after", [5, 6, 8])
        server.ended(26)
        (path,) = server.folder.glob(".stats/*.json")
        wait_for("count of all", lambda: json.loads(path.read_text())["dumped"] == 26 - len(causes), 10)
        assert 30 <= json.loads(path.read_text())["waited_seconds"] < 40
        found = compared(engine, server.folder)
        assert len(found) == 26 - len(causes)
        assert all(error <= LIMIT for one in found.values() for error in one["errors"].values()), found


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        ((*WHOLE, NO_CACHE, "--pp-size=2"), "pipeline parallelism"),
        ((*CHUNKS, NO_CACHE, "--enable-mixed-chunk"), "mixed chunks"),
        (WHOLE, "the radix cache"),
    ],
    ids=["pipeline", "mixed chunk", "radix cache"],
)
def test_what_can_not_be_right_is_refused(engine: Engine, tmp_path: Path, flags: tuple[str, ...], cause: str) -> None:
    """In the log and in `.loaded` before the first request; then as each request's error."""
    sent = prompts(8, 40)
    with serving(engine, "0.5.23", tmp_path, *flags, changes=("idle",), env=TWO_CORES) as server:
        assert f"REFUSED, nothing will be dumped: {cause}" in server.log.read_text()
        claims = [json.loads(path.read_text())["problem"] for path in server.folder.glob(".loaded/*.json")]
        assert any(problem and problem["cause"].startswith(cause) for problem in claims)
        server.ask_all(sent)
        metas = server.ended(8)
        assert {meta["rid"] for meta in metas} == set(sent)
        assert all(meta["error"]["cause"].startswith(cause) for meta in metas)
