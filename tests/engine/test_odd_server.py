"""A real server with everything that hsconsole would not have: what becomes of its dumps, and what tells that.

Its warm-up is on, GET /health makes requests, text is tokenised, its cache is far too small for what is asked of it,
its weights are not those of the profile, one of them is NaN, and another sglang than the profile's is imported.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import re
import signal
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from console.demo.engine import ENVIRONMENT, Engine
from console.demo.profile import LAYERS
from remote.canary import canary
from remote.dumps import checks, tensorfile, verify
from remote.dumps.dump import Dump
from remote.dumps.verdict import Expected
from remote.dumps.watch import newest
from remote.patch.status import status
from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult
from remote.wire.plan import Verdict
from remote.wire.target import Target
from tests.engine.odd_model import NOT_A_NUMBER
from tests.engine.releases import QUIET, Server, compared, launched
from tests.engine.server import HERE, LIMIT, prompts, wait_for
from tests.schema import problems_in

WARM_UP = [0, 2, 2, 2, 2, 2, 2]  # "The capital city of France is", of which the tokenizer knows no word
FLAGS = ("--chunked-prefill-size=-1", "--disable-radix-cache", "--schedule-conservativeness=0.1")
SMALL = "--max-total-tokens=256"


@pytest.fixture(scope="module")
def odd(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    work = tmp_path_factory.mktemp("odd")
    model = work / "model"
    command = [engine.python, HERE / "odd_model.py", engine.model, model]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, **ENVIRONMENT})
    without = ("--skip-server-warmup", "--skip-tokenizer-init", "--max-total-tokens=16384", QUIET)
    with launched(engine, "0.5.23", work, *FLAGS, SMALL, without=without, model=model) as server:
        server.until_ready()
        yield server


def dumps(server: Server) -> dict[str, list[dict[str, Any]]]:
    """rid → metadata of what is done, in the order of its numbers."""
    found: dict[str, list[dict[str, Any]]] = {}
    for meta in sorted(server.metas(), key=lambda meta: int(meta["counter"])):
        assert not meta["error"], meta
        found.setdefault(meta["rid"], []).append(meta)
    return found


def ids(server: Server, meta: dict[str, Any]) -> list[int]:
    raw = tensorfile.read(str(server.folder / f"req_{meta['counter']}" / "input_ids.pt"))
    return [number for (number,) in struct.iter_unpack("<q", raw.rows_at(0, raw.rows))]


def one(server: Server, rid: str) -> dict[str, Any]:
    """Metadata of the only dump of a request."""
    wait_for("dump", lambda: rid in dumps(server))
    (found,) = dumps(server)[rid]
    return found


def profile(server: Server, engine: Engine) -> Target:
    """Of the operator: as if nothing of it were odd."""
    port = int(server.url.rpartition(":")[2])
    return Target(str(engine.python), str(engine.model), port=port, dump_dir=str(server.folder), layers=LAYERS)


def test_a_warm_up_is_a_request_that_nobody_sent(odd: Server) -> None:
    wait_for("warm-up", lambda: bool(dumps(odd)))
    first = min((metas[0] for metas in dumps(odd).values()), key=lambda meta: int(meta["counter"]))
    assert ids(odd, first) == WARM_UP
    odd.ask("mine", [5, 6, 7])
    assert ids(odd, one(odd, "mine")) == [5, 6, 7]
    assert first["rid"] not in ("mine", None)


def at_once(server: Server, *requests: Callable[[], object]) -> None:
    """Send these while the server stands still, so that it finds them waiting, in this order."""
    (scheduler,) = {meta["pid"] for meta in server.metas()}
    os.kill(scheduler, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            answers = []
            for request in requests:
                answers.append(pool.submit(request))
                time.sleep(0.3)  # the order matters, and shows in nothing but the outcome
            os.kill(scheduler, signal.SIGCONT)
            for answer in answers:
                answer.result()
    finally:
        os.kill(scheduler, signal.SIGCONT)


def merged(server: Server, sent: dict[str, list[int]]) -> bool:
    """Send these at once, a health check first. Whether they became one pass with it."""
    check = functools.partial(urllib.request.urlopen, f"{server.url}/health", timeout=60)
    at_once(server, lambda: check().close(), *(functools.partial(server.ask, *prompt) for prompt in sent.items()))
    rows = 1 + sum(map(len, sent.values()))
    wanted = rf"Prefill batch.*#new-seq: {1 + len(sent)}, #new-token: {rows},"
    return re.search(wanted, server.log.read_text()) is not None


def test_a_health_check_in_the_pass_of_prompts_is_in_no_dump(odd: Server) -> None:
    """D02. GET /health makes a request here, and it went through the model together with three prompts."""
    for attempt in range(8):
        sent = prompts(f"beside a health check {attempt}", 3, 60)
        seen = merged(odd, sent)
        assert {rid: ids(odd, one(odd, rid)) for rid in sent} == sent
        if seen:
            break
    else:
        pytest.fail("no health check came into a pass of prompts")
    assert not [rid for rid in dumps(odd) if rid.startswith("HEALTH_CHECK")]


def retracted(server: Server, sent: dict[str, list[int]]) -> bool:
    """Have these answered at once with 20 tokens each. Whether SGLang took some back meanwhile."""
    before = server.log.read_text().count("retracted")
    at_once(server, *(functools.partial(server.generate, rid, 20, input_ids=prompt) for rid, prompt in sent.items()))
    return server.log.read_text().count("retracted") > before


def test_a_retracted_request_is_dumped_again_with_what_it_had_generated(odd: Server) -> None:
    """There is room for 256 tokens, and these want 285: SGLang takes some of them back, and prefills them anew."""
    for attempt in range(8):
        sent = {f"long answer {attempt}.{at}": [2 + 7 * (at + step) % 500 for step in range(75)] for at in range(3)}
        if retracted(odd, sent):
            break
    else:
        pytest.fail("no request was retracted")

    def again() -> dict[str, list[dict[str, Any]]]:
        return {rid: metas for rid, metas in dumps(odd).items() if rid in sent and len(metas) > 1}

    wait_for("second dump", lambda: bool(again()))
    for rid, (first, *others) in again().items():
        assert ids(odd, first) == sent[rid]
        for other in others:
            assert ids(odd, other)[:75] == sent[rid]
            assert len(ids(odd, other)) > 75
        rows = {row.number: row for row in newest(str(odd.folder), 1000).rows if row.rid == rid}
        assert rows[first["counter"]].superseded_by is None
        assert {rows[other["counter"]].longer_than for other in others} == {first["counter"]}


def test_text_is_not_the_ids_that_its_words_are(odd: Server) -> None:
    began, words = time.time(), (5, 6, 7, 8)
    odd.generate("text", text=" ".join(f"t{number}" for number in words))
    meta = one(odd, "text")
    assert ids(odd, meta) == [0, *words]
    dump = Dump(str(odd.folder / f"req_{meta['counter']}"), meta["counter"])
    found = {check.name: check for check in checks.run(dump, Expected(words, LAYERS, "text", began))}
    assert found["tokens"].verdict is found["ids"].verdict is Verdict.BAD, found


def test_a_nan_is_found_and_every_dump_is_counted(odd: Server) -> None:
    for rid, prompt in {**prompts("number", 3, 60), "not a number": [5, NOT_A_NUMBER, 6]}.items():
        odd.ask(rid, prompt)
        one(odd, rid)
    names = verify.names_of(str(odd.folder), None)
    results: dict[int, VerifyResult] = {}

    def emit(progress: VerifyProgress) -> None:
        results.update({result.number: result for result in progress.results})

    summary = verify.verify(str(odd.folder), "odd", names, Level.CONTENT, emit, threading.Event())
    assert sum(summary.counts.values()) == len(names) == len(results)
    bad = {result.rid: result for result in results.values() if result.verdict is Verified.BAD}
    assert set(bad) == {"not a number"}
    assert any(check.name == "finite" and "NaN" in check.found for check in bad["not a number"].checks)
    assert summary.counts["bad"] == 1
    assert [results[number].rid for number in summary.longer] == [
        rid for rid, (_, *others) in dumps(odd).items() for _ in others
    ]
    assert not summary.ok


def test_other_weights_than_the_profiles_are_found(odd: Server, engine: Engine) -> None:
    found = {check.name: check for check in canary.run(profile(odd, engine), lambda _: None).checks}
    assert found["final against logprobs"].verdict is Verdict.BAD, found
    assert found["prompt"].verdict is not Verdict.BAD, found


def test_another_file_than_the_profiles_was_imported(odd: Server, engine: Engine) -> None:
    loaded = status(profile(odd, engine)).depths[3]
    assert loaded.verdict is Verdict.WARN
    assert "releases/0.5.23/sglang/srt/models/deepseek_v2.py, not this file" in loaded.found


def test_what_was_dumped_is_right_for_all_that(odd: Server, engine: Engine) -> None:
    sent = prompts("all the same", 8, 60)
    odd.ask_all(sent)
    for rid in sent:
        one(odd, rid)
    assert problems_in(odd.folder) == []
    model = odd.folder.parent / "model"
    found = [errors for rid, told in compared(engine, odd.folder, model).items() if rid != "not a number"
             for errors in [told["errors"].values()]]  # fmt: skip
    assert len(found) >= 8
    assert all(error <= LIMIT for errors in found for error in errors), found
