"""The dumper in a real server, against transformers; and its hooks with real tensors."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo.stage import Stage
from console.operations import calls
from remote.wire.dumps import DumpRow, DumpState, Level
from remote.wire.server import Phase
from tests.engine.server import HERE, LIMIT, Server, product, prompts, wait_for
from tests.schema import problems_in

CASES = [
    name
    for file in sorted((HERE / "cases").glob("*.py"))
    for name in re.findall(r"^@case\ndef (\w+)", file.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def outcomes(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    command = [engine_python, HERE / "dumper_cases.py", HERE.parents[1]]
    folders = tmp_path_factory.mktemp("cases")
    environment = {**os.environ, "TMPDIR": str(folders)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert problems_in(folders) == []
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_hooks(outcomes: dict[str, str], name: str) -> None:
    assert not outcomes[name], outcomes[name]


@pytest.fixture(scope="module")
def server(stage: Stage) -> Iterator[Server]:
    with product(stage) as made:
        shutil.rmtree(made.folder, ignore_errors=True)  # of tests before these, on the same stage
        made.act("patch.apply")
        made.start()
        yield made


@pytest.fixture
def small(server: Server) -> Iterator[Path]:
    """A tmpfs of 4 MiB where the dumps go."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(server.folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small tmpfs can be mounted by root only")
    try:
        yield server.folder
    finally:
        subprocess.run(["umount", "--lazy", str(server.folder)], check=True)  # counters are written now and then


def test_a_start_makes_no_dump(server: Server) -> None:
    """Neither SGLang's own request of a warm-up, which the product turns off, nor any that asks how it is."""
    for path in ("health", "health_generate"):
        server.get(path)
    assert not list(server.folder.glob("*req_*"))
    wait_for("count of the second", lambda: server.counters().get("skipped") == {"health check": 1})


def test_every_request_of_a_crowd_has_its_own_right_states(server: Server) -> None:
    sent = prompts("crowd", 32, 600)
    server.ask_all(sent, 16)
    wait_for("32 dumps", lambda: len(list(server.folder.glob("req_*/done"))) == 32)
    assert problems_in(server.folder) == []
    compared = server.compared()
    assert {found["rid"]: found["ids"] for found in compared.values()} == sent
    assert {name for found in compared.values() for name in found["errors"]} == {"aux_0", "aux_1", "aux_2", "final"}
    assert max(error for found in compared.values() for error in found["errors"].values()) <= LIMIT


def test_a_hundred_at_once_are_a_hundred_dumps(server: Server) -> None:
    before = set(server.metas())
    sent = prompts("hundred", 100, 60)
    server.ask_all(sent, 100)
    wait_for("100 dumps", lambda: len(set(server.metas()) - before) == 100)
    metas = server.metas()
    assert {rid: metas[rid]["num_tokens"] for rid in sent} == {rid: len(ids) for rid, ids in sent.items()}
    assert not list(server.folder.glob("req_*/error"))
    assert problems_in(server.folder) == []


def test_a_request_that_is_sent_again_moves_no_other(server: Server) -> None:  # D15
    """The client gives up when the prompt is dumped and the answer not yet there, and sends the same rid again."""
    others, ids = prompts("beside", 12, 60), list(range(2, 200))

    def attempts() -> list[DumpRow]:
        rows = calls.dumps(server.agent, 1000).rows
        return sorted((row for row in rows if row.rid == "again"), key=lambda row: row.number)

    def taken() -> bool:
        with contextlib.suppress(urllib.error.HTTPError):  # the server still knows the first attempt
            server.ask("again", ids)
            return True
        return False

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        beside = pool.submit(server.ask_all, others, 4)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as link:
            sampling = {"max_new_tokens": 1500, "ignore_eos": True}
            body = {"input_ids": ids, "rid": "again", "sampling_params": sampling}
            link.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})
            wait_for("first attempt", lambda: bool(attempts()))
        wait_for("second attempt", taken)
        beside.result()
    wait_for("dump of it", lambda: [row.state for row in attempts()] == [DumpState.COMPLETE] * 2)
    first, second = attempts()
    assert (first.superseded_by, second.superseded_by) == (second.number, None)
    assert calls.dump(server.agent, first.number).row.superseded_by == second.number
    numbers, profile = [first.number, second.number], server.stage.profile
    found = calls.dumps_verify(server.agent, profile, numbers, Level.STRUCTURE, lambda _: None)
    assert (found.counts, found.superseded) == ({"ok": 2}, (first.number,))
    shutil.rmtree(server.folder / f"req_{first.number}")
    wait_for("12 others", lambda: set(others) <= set(server.metas()))
    assert {rid: server.metas()[rid]["ids_sha256"] for rid in others} == {
        rid: hashlib.sha256(struct.pack(f"<{len(sent)}q", *sent)).hexdigest() for rid, sent in others.items()
    }


def test_a_request_that_sglang_refuses_is_no_dump(server: Server) -> None:
    """It prefills one token in place of the prompt, under its rid; a prompt of one token is another thing."""
    with pytest.raises(urllib.error.HTTPError, match="400"):
        server.generate("refused", input_ids=[5, 6, 7], return_logprob=True, logprob_start_len=99)
    server.ask("of one token", [5])
    wait_for("both", lambda: "refused" in server.errors() and "of one token" in server.metas())
    assert "in its place" in server.errors()["refused"]["cause"]


def test_writers_that_stand_still_hold_no_request_up(server: Server) -> None:
    """Numbers are claimed under a lock, which a folder that does not answer would hold for as long."""
    sent = prompts("held up", 40, 60)
    with (server.folder / ".counter").open() as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        server.ask_all(sent, 20)
        assert not set(sent) & set(server.metas()), "all are answered, none is written"
    wait_for("40 dumps", lambda: set(sent) <= set(server.metas()))
    metas = server.metas()
    assert {rid: metas[rid]["num_tokens"] for rid in sent} == {rid: len(ids) for rid, ids in sent.items()}


def test_a_full_tmpfs_costs_the_dumps_and_no_answer(server: Server, small: Path) -> None:
    sent = prompts("crammed", 24, 600)
    server.ask_all(sent, 8)
    wait_for("end of all", lambda: len(server.metas()) + len(server.errors()) == 24)
    assert server.metas(), "some found room"
    assert {error["cause"] for error in server.errors().values()} == {"no room where the dumps are written"}
    assert problems_in(server.folder) == []
    for request in server.folder.glob("req_*"):
        assert (request / "error").exists() or (request / "done").exists()
        shutil.rmtree(request)
    server.ask("room again", [5, 6, 7])
    wait_for("dump", lambda: "room again" in server.metas())


def test_a_deleted_folder_costs_no_request_and_no_number(server: Server) -> None:
    server.ask("before", [5, 6, 7])
    wait_for("dump", lambda: "before" in server.metas())
    number = server.metas()["before"]["counter"]
    shutil.rmtree(server.folder)
    server.ask("after", [5, 6, 7])
    wait_for("dump", lambda: "after" in server.metas())
    assert server.metas()["after"]["counter"] == number + 1


def test_killed_while_it_writes_nothing_false_stays_and_numbers_go_on(server: Server) -> None:
    (loaded,) = {path.parent for path in server.folder.glob(".loaded/*.json")} or {server.folder / ".loaded"}
    assert loaded.exists(), "what is loaded is told again after the folder was deleted"
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for rid, ids in prompts("killed", 60, 600).items():
            pool.submit(server.ask, rid, ids)
        wait_for("first dump", lambda: any(rid.startswith("killed") for rid in server.metas()))
        for process in calls.server_state(server.agent).processes:
            if process.ours:
                with contextlib.suppress(ProcessLookupError):  # a child ends with its parent
                    os.kill(process.pid, signal.SIGKILL)
    for request in server.folder.glob("req_*"):
        files = json.loads((request / "meta.json").read_text())["files"]
        assert (request / "done").exists()
        assert all((request / name).stat().st_size == record["bytes"] for name, record in files.items())
    highest = max(meta["counter"] for meta in server.metas().values())
    wait_for("end", lambda: calls.server_state(server.agent).phase in (Phase.CRASHED, Phase.STOPPED))
    server.start()
    assert not list(server.folder.glob(".req_*")), "leftovers of the dead are removed"
    server.ask("again", [8, 9])
    wait_for("dump", lambda: "again" in server.metas())
    assert server.metas()["again"]["counter"] > highest
    assert problems_in(server.folder) == []
