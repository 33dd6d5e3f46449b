"""The canary's comparisons on a model small enough to compute here: right states pass, each kind of wrong does not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote.canary import compare, logits, order, prefills, ranks, states, tolerance
from remote.canary.ask import Asked, remove
from remote.canary.prefills import Dumped, Prefilled, PrefillLog
from remote.canary.ranks import Ranks
from remote.canary.states import States
from remote.dumps import content
from remote.dumps.dump import Dump
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target
from tests import dumpfaults
from tests.dumpfolder import dump
from tests.unit.canary.models import model

ROWS, COLUMNS, VOCABULARY = 24, 64, 200
DICE = np.random.default_rng(7)
HEAD = (DICE.standard_normal((VOCABULARY, COLUMNS)) * 0.3).astype("<f4")
NORM = (1 + 0.1 * DICE.standard_normal(COLUMNS)).astype("<f4")


def rounded(values: Any, dtype: str) -> Any:
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values, "<f4").view("<u4")
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view("<f4")
    return values.astype("<f4")


def computed(dtype: str = "float32", seed: int = 1) -> States:
    """A residual stream that grows, and its norm."""
    dice = np.random.default_rng(seed)
    steps = dice.standard_normal((4, ROWS, COLUMNS))
    stream = np.cumsum(steps, axis=0)
    end = stream[3]
    final = end / np.sqrt((end**2).mean(axis=-1, keepdims=True)) * NORM
    tensors = {f"aux_{at}.pt": rounded(stream[at], dtype) for at in range(3)} | {"final.pt": rounded(final, dtype)}
    return States(tensors, dtype)


def answer(found: States) -> dict[str, Any]:
    """What a server that computes in the states' type says: logits rounded to it, the five likeliest tokens."""
    scores = rounded((found.tensors["final.pt"].astype("f8") @ HEAD.T.astype("f8")).astype("<f4"), found.dtype)
    logprobs = scores - np.log(np.exp(scores.astype("f8")).sum(axis=-1, keepdims=True))
    tops = [[[float(row[at]), int(at), None] for at in np.argsort(-row)[:5]] for row in logprobs]
    return {"input_top_logprobs": [None, *tops[:-1]], "output_top_logprobs": tops[-1:]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    weights = {"lm_head.weight": HEAD, "model.norm.weight": NORM}
    return str(model(tmp_path_factory.mktemp("model"), weights, tie_word_embeddings=False))


def target(folder: str, dump_dir: str = "/nowhere", **more: Any) -> Target:
    return Target(python="python3", model_path=folder, dump_dir=dump_dir, **more)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_right_states_give_the_servers_logprobs(folder: str, dtype: str) -> None:
    found = computed(dtype)
    check = logits.of_model(np, target(folder), found, logits.tops(answer(found), ROWS))
    assert check.verdict is Verdict.OK, check
    assert f"{ROWS} rows, {ROWS * 4} pairs" in check.found


WRONG: dict[str, Callable[[Any], Any]] = {
    "shifted": lambda final: np.roll(final, 1, axis=0),
    "one row of another position": lambda final: np.concatenate([final[:5], final[4:5], final[6:]]),
    "before the norm": lambda final: final / NORM * 3,
    "without the norm's weight": lambda final: final / NORM,
    "a fourth too long": lambda final: final * 1.25,
    "a row less": lambda final: final[:-1],
    "NaN": lambda final: np.where(np.arange(COLUMNS) == 3, np.nan, final),
    "zero": lambda final: final * 0,
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_states_do_not(folder: str, name: str, dtype: str) -> None:
    right = computed(dtype)
    final = WRONG[name](right.tensors["final.pt"]).astype("<f4")
    wrong = States({**right.tensors, "final.pt": final}, dtype)
    check = logits.of_model(np, target(folder), wrong, logits.tops(answer(right), ROWS))
    assert check.verdict is Verdict.BAD, check


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("turned", "well"), [(1, True), (2, True), (3, False), (ROWS, False)])
def test_rows_of_another_pass_may_have_gone_to_another_expert(folder: str, dtype: str, turned: int, well: bool) -> None:
    """Seen on a GPU in bfloat16: 1 to 5 rows of a prompt that was sent among 48 differ when it is sent alone."""
    right = computed(dtype)
    stored = noisy(right, 0.5, slice(3, 3 + turned))
    spare = tolerance.of_rows(dtype).beyond(ROWS)
    check = logits.of_model(np, target(folder), stored, logits.tops(answer(right), ROWS), spare)
    assert (check.verdict is Verdict.OK) == (well and dtype == "bfloat16"), check


def test_a_short_prompt_may_turn_too() -> None:
    assert [tolerance.of_rows("bfloat16").beyond(rows) for rows in (1, 9, 10, 29, 1000)] == [1, 1, 1, 2, 100]
    assert tolerance.of_rows("float32").beyond(1000) == 0


def test_logprobs_that_are_missing_are_unknown(folder: str) -> None:
    found = computed()
    good = answer(found)
    for info in (
        {},
        {**good, "output_top_logprobs": []},
        {**good, "input_top_logprobs": [None] * ROWS},
        {**good, "input_top_logprobs": [None, ["x"], *good["input_top_logprobs"][2:]]},
        {**good, "input_top_logprobs": "x"},
    ):
        assert logits.of_model(np, target(folder), found, logits.tops(info, ROWS)).verdict is Verdict.UNKNOWN
    dummy = target(folder, flags=("--load-format=dummy",))
    assert logits.of_model(np, dummy, found, logits.tops(good, ROWS)).verdict is Verdict.UNKNOWN


def test_the_order_of_layers(folder: str) -> None:
    right = computed()
    assert order.check(np, right, folder).verdict is Verdict.OK
    swapped = {"aux_0.pt": right.tensors["aux_2.pt"], "aux_2.pt": right.tensors["aux_0.pt"]}
    assert order.check(np, States({**right.tensors, **swapped}, "float32"), folder).verdict is Verdict.BAD
    assert order.check(np, right, "/nowhere").verdict is Verdict.UNKNOWN


def noisy(found: States, relative: float, rows: slice = slice(None)) -> States:
    changed = {name: values.copy() for name, values in found.tensors.items()}
    for values in changed.values():
        noise = np.random.default_rng(3).standard_normal(values[rows].shape)
        size = np.linalg.norm(values[rows], axis=-1, keepdims=True) / np.linalg.norm(noise, axis=-1, keepdims=True)
        values[rows] += (noise * size * relative).astype("<f4")
    return States(changed, found.dtype)


@pytest.mark.parametrize(
    ("dtype", "relative", "rows", "verdict"),
    [
        ("float32", 0.0, slice(None), Verdict.OK),
        ("float32", 1e-6, slice(None), Verdict.OK),
        ("float32", 1e-5, slice(3, 4), Verdict.BAD),
        ("bfloat16", 0.02, slice(None), Verdict.OK),
        ("bfloat16", 0.5, slice(3, 5), Verdict.OK),  # two of 24 rows: another expert
        ("bfloat16", 0.5, slice(3, 6), Verdict.BAD),
        ("bfloat16", 0.2, slice(None), Verdict.BAD),
        ("bfloat16", 1.2, slice(3, 4), Verdict.BAD),  # no expert turns a row that far
    ],
)
def test_the_tolerance(dtype: str, relative: float, rows: slice, verdict: Verdict) -> None:
    found = computed(dtype)
    assert compare.same(np, "repeat", noisy(found, relative, rows), found, ROWS, "same").verdict is verdict


def test_what_can_not_be_the_same() -> None:
    found = computed()
    other = States(dict(found.tensors), "bfloat16")
    fewer = States({name: values[:5] for name, values in found.tensors.items()}, "float32")
    lacking = States({"final.pt": found.tensors["final.pt"]}, "float32")
    infinite = States({**found.tensors, "final.pt": found.tensors["final.pt"] * np.float32("nan")}, "float32")
    narrower = States({name: values[:, :7] for name, values in found.tensors.items()}, "float32")
    for wrong in (other, fewer, lacking, infinite, narrower):
        assert compare.same(np, "repeat", wrong, found, ROWS, "same").verdict is Verdict.BAD


def test_a_buffer_that_is_not_written_anew() -> None:
    assert compare.unlike(np, computed(), computed(seed=2)) == ""
    assert "another prompt" in compare.unlike(np, computed(), computed())
    one = computed()
    for other in ({}, {name: values[:, :7] for name, values in one.tensors.items()}):
        assert compare.unlike(np, one, States(other, "float32")) == "", "tensors of another kind are no buffer's"


ONES = {"float32": ("<u4", 0x3F80_0000), "float16": ("<u2", 0x3C00), "bfloat16": ("<u2", 0x3F80)}  # the bits of 1.0


@pytest.mark.parametrize("dtype", ONES)
def test_a_roundoff_is_half_the_way_from_one_to_the_next_number(dtype: str) -> None:
    kind, bits = ONES[dtype]
    one, following = content.floats(np, np.array([bits, bits + 1], kind).tobytes(), dtype)
    assert (one, (following - one) / 2) == (1, tolerance.ROUNDOFF[dtype])


def test_every_dtype_has_a_tolerance() -> None:
    assert tolerance.of_rows("float32").row == 64 * 2.0**-24
    assert tolerance.of_rows("bfloat16").row == 0.125
    assert [tolerance.of_rows(dtype).row for dtype in ("float32", "float16", "bfloat16")] == sorted(
        tolerance.of_rows(dtype).row for dtype in tolerance.ROUNDOFF
    )


LOG = """\
[2026-03-01 10:00:00 TP0] Prefill batch, #new-seq: 2, #new-token: 30, #cached-token: 0, token usage: 0.00
[2026-03-01 10:00:00 TP1] Prefill batch, #new-seq: 2, #new-token: 30, #cached-token: 0, token usage: 0.00
[2026-03-01 10:00:01] Prefill batch. #new-seq: 1, #new-token: 8, #cached-token: 0, #queue-req: 0
[2026-03-01 10:00:01 DP1 TP0] Prefill batch [7], #new-seq: 1, #new-token: 2, #cached-token: 0
[2026-03-01 10:00:02] Decode batch, #running-req: 1, #token: 38
\x1b[31mPrefill batch, #new-seq: x\x00
"""


def test_lines_of_all_releases_are_counted() -> None:
    assert prefills.count(LOG.splitlines()) == Prefilled(4, 40)


@pytest.mark.parametrize(
    ("ranks", "counted"),
    [
        (("DP0 TP0", "DP1 TP1"), Prefilled(2, 1)),  # attention: each has requests of its own
        (("DP0 TP0", "DP0 TP1", "DP1 TP2", "DP1 TP3"), Prefilled(2, 2)),  # two share each
        (("DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1"), Prefilled(2, 2)),  # replicas
        (("TP1",), Prefilled(0, 0)),
    ],
)
def test_ranks_that_repeat_what_another_says_are_not_counted(ranks: tuple[str, ...], counted: Prefilled) -> None:
    lines = [f"[now {rank}] Prefill batch, #new-seq: 1, #new-token: {at}" for at, rank in enumerate(ranks)]
    assert prefills.count(lines) == counted


@pytest.mark.parametrize(
    ("dumped", "others", "verdict"),
    [
        (Prefilled(4, 40), 0, Verdict.OK),
        (Prefilled(3, 39), 0, Verdict.WARN),  # one of one token: a health check
        (Prefilled(3, 32), 0, Verdict.BAD),  # a request without a dump
        (Prefilled(4, 41), 0, Verdict.BAD),  # a row more than was computed
        (Prefilled(5, 48), 1, Verdict.UNKNOWN),
    ],
)
def test_the_log_against_dumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dumped: Prefilled, others: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(prefills, "_WAIT_S", 0.1)
    monkeypatch.setattr(prefills, "_BUSY_S", 0.2)
    log = server_log(tmp_path, monkeypatch)
    log.write_text(LOG)
    since = PrefillLog(target("/model", port=8123))
    assert compared(since, Prefilled(4, 40)).verdict is Verdict.UNKNOWN, "nothing since"
    with log.open("a") as file:
        file.write(LOG)
    assert compared(since, dumped, others).verdict is verdict


def compared(since: PrefillLog, dumped: Prefilled, others: int = 0) -> Check:
    return since.check(lambda: Dumped(dumped, others), threading.Event())


def test_a_log_that_is_not_there_or_replaced_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = server_log(tmp_path, monkeypatch)
    assert compared(PrefillLog(target("/model", port=8123)), Prefilled(4, 40)).verdict is Verdict.UNKNOWN
    log.write_text(LOG)
    since = PrefillLog(target("/model", port=8123))
    log.write_text("")
    found = compared(since, Prefilled(4, 40))
    assert found.verdict is Verdict.UNKNOWN
    assert "replaced or cut" in found.found


def server_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "hsconsole").mkdir()
    return tmp_path / "hsconsole" / "server-8123.log"


OURS: list[tuple[str, dict[str, Any], bool]] = [
    ("its rid", {"rid": "mine"}, True),
    ("another's rid", {"rid": "another"}, False),
    ("its ids", {"rid": None}, True),
    ("another's ids", {"rid": None, "ids_sha256": "0" * 64}, False),
]


@pytest.mark.parametrize(("changed", "ours"), [case[1:] for case in OURS], ids=[case[0] for case in OURS])
def test_only_its_own_dump_is_taken_away(tmp_path: Path, changed: dict[str, Any], ours: bool) -> None:
    path = dump(tmp_path, 4, ids=range(5), **changed)
    remove(target("/model", str(tmp_path)), Asked(tuple(range(5)), "mine", 4))
    assert path.exists() != ours
    assert len(list(tmp_path.iterdir())) == (not ours)


def written(path: Path, found: States, rid: str, rank: int) -> None:
    dump(
        path.parent,
        0,
        ids=range(ROWS),
        columns=COLUMNS,
        dtype="float32",
        rid=rid,
        tp_rank=rank,
        name=path.name,
        done=False,
    )
    for name, values in found.tensors.items():
        dumpfaults.save(path, name[:-3], values, "float32")
    (path / "done").touch()  # last: somebody waits for it


RANKS = [
    ("all agree", {1: 0.0, 2: 1e-7, 3: 0.0}, Verdict.OK),
    ("one holds partial sums", {1: 0.0, 2: 0.4, 3: 0.0}, Verdict.BAD),
    ("one wrote nothing", {1: 0.0, 3: 0.0}, Verdict.UNKNOWN),
]


@pytest.mark.parametrize(("noise", "verdict"), [case[1:] for case in RANKS], ids=[case[0] for case in RANKS])
def test_rank_against_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: dict[int, float], verdict: Verdict
) -> None:
    monkeypatch.setattr(ranks, "_WAIT_S", 60.0 if len(noise) == 3 else 1.0)
    found = computed()
    copies = Ranks(target("/model", str(tmp_path), tp=4), "mine", "0" * 64)
    copies.name()
    assert (tmp_path / ".canary").read_text().split() == ["mine", "0" * 64]

    def others() -> None:
        time.sleep(0.2)
        written(tmp_path / ".ranks" / "1" / "req_7", computed(seed=9), "another", 1)
        for rank, relative in noise.items():
            written(tmp_path / ".ranks" / str(rank) / "req_0", noisy(found, relative), "mine", rank)

    thread = threading.Thread(target=others)
    thread.start()
    check = copies.check(np, found)
    thread.join()
    assert check.verdict is verdict, check
    copies.remove()
    assert (tmp_path / ".ranks").exists(), "a request is still named"
    copies.withdraw()
    copies.remove()
    left = [path.name for path in tmp_path.glob(".ranks/*/req_*")]
    assert left == ["req_7"], "of another canary, which may be about to compare"


@pytest.mark.parametrize(("tp", "flags"), [(1, ()), (2, ("--dp 2", "--enable-dp-attention"))])
def test_one_rank_has_nothing_to_compare_with(tmp_path: Path, tp: int, flags: tuple[str, ...]) -> None:
    copies = Ranks(target("/model", str(tmp_path), tp=tp, flags=flags), "mine", "0" * 64)
    copies.name()
    assert not list(tmp_path.iterdir())
    check = copies.check(np, computed())
    assert (check.verdict, check.found) == (Verdict.UNKNOWN, "one rank: nothing to compare with")


def test_a_dump_is_read_as_numbers(tmp_path: Path) -> None:
    found = computed()
    written(tmp_path / "req_0", found, "mine", 0)
    read = states.read(np, Dump(str(tmp_path / "req_0"), 0))
    assert (read.dtype, read.rows) == ("float32", ROWS)
    assert all(np.array_equal(read.tensors[name], values) for name, values in found.tensors.items())
    assert json.loads((tmp_path / "req_0" / "meta.json").read_text())["rid"] == "mine"
