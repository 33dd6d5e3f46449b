"""The test request against a real HTTP server that dumps, refuses, hangs or dies."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from remote import processes
from remote.dumps import generate, request
from remote.wire.dumps import DumpTest
from remote.wire.errors import ServerError
from remote.wire.plan import StepResult, Verdict
from remote.wire.target import Target
from tests.dumpfolder import dump, forerunner
from tests.living import PATIENCE

Body = dict[str, Any]
Reply = tuple[int, bytes]


def good(body: Body, **info: Any) -> Reply:
    known = {"id": body["rid"], "prompt_tokens": len(body["input_ids"]), "cached_tokens": 0, "completion_tokens": 1}
    return 200, json.dumps({"text": "x", "meta_info": {**known, **info}}).encode()


@contextlib.contextmanager
def server(handle: Callable[[Body], Reply | None], host: str = "127.0.0.1") -> Iterator[int]:
    """Answers POST /generate with what `handle` makes of it; None closes the connection."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/generate"
            asked.append(dict(self.headers))
            reply = handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if reply is not None:
                self.send_response(reply[0])
                self.send_header("Content-Length", str(len(reply[1])))
                self.end_headers()
                self.wfile.write(reply[1])

        def log_message(self, *args: Any) -> None:
            pass

    asked.clear()
    made = ThreadingHTTPServer((host, 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made.server_port
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


asked: list[dict[str, str]] = []


def target(port: int, folder: Path, **changed: Any) -> Target:
    return Target(**{"python": "python3", "model_path": "m", "port": port, "dump_dir": str(folder), **changed})


def ask(port: int, folder: Path, **changed: Any) -> tuple[DumpTest, list[StepResult]]:
    steps: list[StepResult] = []
    return request.test(target(port, folder, **changed), steps.append), steps


def bad(result: DumpTest) -> dict[str, str]:
    return {check.name: f"{check.found} | {check.remedy}" for check in result.checks if check.verdict is not Verdict.OK}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that must not be asked, and patience with what comes."""
    monkeypatch.setattr(request, "DUMP_S", PATIENCE)
    monkeypatch.setattr(request, "GUESS_S", 0.2)
    monkeypatch.setattr(generate, "ANSWER_S", PATIENCE)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


@pytest.fixture
def no_dump_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "DUMP_S", 0.6)


def test_a_good_server_passes(tmp_path: Path) -> None:
    dump(tmp_path, 0, ids=request.IDS)  # an older one with the same ids

    def handle(body: Body) -> Reply:
        assert body["input_ids"] == list(range(1, 11))
        assert body["sampling_params"] == {"max_new_tokens": 1, "temperature": 0.0}
        dump(tmp_path, 1, rid="another client's")
        dump(tmp_path, 2, rid=body["rid"])
        return good(body)

    with server(handle) as port:
        result, steps = ask(port, tmp_path)
        again, _ = ask(port, tmp_path / "other")
    assert result.ok, bad(result)
    assert result.number == 2
    assert again.rid != result.rid
    assert [step.title for step in steps[:4]] == ["request sent", "answer", "prompt", "dump"]
    assert [step.title for step in steps[1:]] == [check.name for check in result.checks]
    assert all(step.ok for step in steps)
    assert {"tokens", "layers", "files", "finite", "ids", "request"} <= {check.name for check in result.checks}
    assert "Authorization" not in asked[0]


def test_a_dump_that_comes_after_the_answer_is_waited_for(tmp_path: Path) -> None:
    def handle(body: Body) -> Reply:
        def write() -> None:
            dump(tmp_path, 0, name=".req_0.1", rid=body["rid"]).rename(tmp_path / "req_0")

        threading.Timer(0.3, write).start()
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert result.ok, bad(result)


def test_a_release_without_rids_is_found_by_ids(tmp_path: Path) -> None:
    def handle(body: Body) -> Reply:
        dump(tmp_path, 0, rid=None)
        dump(tmp_path, 1, rid=None, ids=range(5))
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert result.ok, bad(result)
    assert result.number == 0


def test_the_forerunners_dump_is_found_by_its_length(tmp_path: Path) -> None:
    def handle(body: Body) -> Reply:
        forerunner(tmp_path, 3)
        forerunner(tmp_path, 4, tokens=1)
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert result.ok, bad(result)
    assert result.number == 3


def test_a_restarted_forerunner_writes_over_older_dumps(tmp_path: Path) -> None:
    old = forerunner(tmp_path, 0)
    for entry in (*old.iterdir(), old):
        os.utime(entry, (1000, 1000))

    def handle(body: Body) -> Reply:
        meta = json.loads((old / "meta.json").read_text())
        (old / "meta.json").write_text(json.dumps({**meta, "timestamp": time.time()}))
        (old / "done").touch()
        os.utime(old / "done", (time.time() + 1, time.time() + 1))
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert result.ok, bad(result)
    assert result.number == 0


@pytest.mark.usefixtures("no_dump_comes")
def test_a_dump_that_says_it_is_of_another_is_never_taken_for_ours(tmp_path: Path) -> None:
    def handle(body: Body) -> Reply:
        path = dump(tmp_path, 0, rid="another client's")
        os.utime(path / "done", (time.time() + 1, time.time() + 1))
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert result.number is None
    assert "1 dumps of other requests did" in bad(result)["dump"]


@pytest.mark.usefixtures("no_dump_comes")
def test_a_folder_that_can_not_be_listed_is_a_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir

    def refused(path: str) -> list[str]:
        if Path(path) == tmp_path:
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "listdir", refused)
    with server(good) as port:
        result, _ = ask(port, tmp_path)
    assert "no dump of this request came" in bad(result)["dump"]


@pytest.mark.parametrize("make", [forerunner, dump])
def test_a_merged_request_is_flagged(tmp_path: Path, make: Callable[..., Path]) -> None:  # D02
    def handle(body: Body) -> Reply:
        if make is dump:
            dump(tmp_path, 0, ids=range(1, 12), rid=None)
        else:
            forerunner(tmp_path, 0, tokens=11)
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert "11 rows for a prompt of 10 ids" in bad(result)["tokens"]
    assert not result.ok


def test_rows_from_the_cache_are_flagged(tmp_path: Path) -> None:  # D14
    def handle(body: Body) -> Reply:
        dump(tmp_path, 0, rid=body["rid"], ids=(10,), first_position=9, last_position=9)
        return good(body, cached_tokens=9)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert set(bad(result)) == {"prompt", "tokens", "ids"}
    assert "--disable-radix-cache" in bad(result)["prompt"]


def test_other_layers_than_the_profiles_are_flagged(tmp_path: Path) -> None:
    def handle(body: Body) -> Reply:
        dump(tmp_path, 0, rid=body["rid"])
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path, layers=(2, 30, 58))
    assert set(bad(result)) == {"layers"}


def test_an_error_dump_tells_its_cause(tmp_path: Path) -> None:  # D11
    def handle(body: Body) -> Reply:
        path = dump(tmp_path, 0, rid=body["rid"], done=False, ids_sha256=None)
        for tensor in path.glob("*.pt"):
            tensor.unlink()
        (path / "error").write_text('{"cause": "no room", "detail": "234 MB needed, 64 MB free"}')
        return good(body)

    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert "no room: 234 MB needed" in bad(result)["dump"]
    assert result.number == 0


@pytest.mark.usefixtures("no_dump_comes")
def test_no_dump_names_the_likely_causes(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    with server(good) as port:
        result, _ = ask(port, folder)
        assert "SGLANG_HS_DUMP_DIR=" in bad(result)["dump"]
        (folder / ".loaded").mkdir(parents=True)
        (folder / ".stats").mkdir()
        result, _ = ask(port, folder)
        assert "No running process says" in bad(result)["dump"]
        myself = processes.read(os.getpid())
        assert myself is not None
        claim = {"pid": myself.pid, "start_ticks": myself.start_ticks}
        (folder / ".loaded" / "1.json").write_text("[]")
        (folder / ".loaded" / "2.json").write_text(json.dumps({**claim, "start_ticks": 1}))
        (folder / ".loaded" / f"{myself.pid}.json").write_text(json.dumps(claim))
        result, _ = ask(port, folder)
        assert "--disable-cuda-graph" in bad(result)["dump"]
        (folder / ".stats" / f"{myself.pid}.json").write_text('{"refused": "pipeline stages"}')
        result, _ = ask(port, folder)
        assert "The dumper refuses: pipeline stages" in bad(result)["dump"]


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (lambda body: (503, b""), "HTTP 503: not ready yet"),
        (lambda body: (400, b"\x1b[2Jno\xff"), "HTTP 400: \x1b[2Jno�"),
        (lambda body: (401, b""), "--api-key"),
        (lambda body: (200, b""), "something else"),
        (lambda body: (200, b"[1]"), "something else"),
        (lambda body: (200, b'{"meta_info": '), "something else"),
        (lambda body: None, "closed the connection"),
    ],
)
def test_a_bad_answer_is_a_failed_check(tmp_path: Path, handle: Callable[[Body], Reply | None], words: str) -> None:
    with server(handle) as port:
        result, steps = ask(port, tmp_path)
    assert (result.ok, result.number) == (False, None)
    assert words in bad(result)["answer"]
    assert [step.ok for step in steps] == [True, False]


def test_a_server_that_hangs_is_a_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # S08
    monkeypatch.setattr(generate, "ANSWER_S", 0.5)
    over = threading.Event()

    def hang(_: Body) -> None:
        over.wait(PATIENCE)

    with server(hang) as port:
        result, _ = ask(port, tmp_path)
        over.set()
    assert (result.ok, result.number) == (False, None)
    assert "it hangs" in bad(result)["answer"]


@pytest.mark.parametrize("info", [None, [], "x"])
def test_an_answer_without_counts_is_no_error(tmp_path: Path, info: Any) -> None:
    def handle(body: Body) -> Reply:
        dump(tmp_path, 0, rid=body["rid"])
        return 200, json.dumps({"meta_info": info}).encode()

    with server(handle) as port:
        assert ask(port, tmp_path)[0].ok


def test_no_server_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ServerError, match=rf"no server at http://127.0.0.1:{port}/generate: Connection refused"):
        ask(port, tmp_path)


@pytest.mark.usefixtures("no_dump_comes")
@pytest.mark.parametrize("flags", [("--api-key", "s3cret"), ("--api-key=s3cret",), ("--api-key s3cret",)])
def test_the_profiles_api_key_is_sent_and_never_told(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with server(good) as port:
        result, steps = ask(port, tmp_path, flags=flags)
    assert asked[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr((result, steps))


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("localhost", "localhost")],
)
def test_it_connects_to_where_the_server_listens(tmp_path: Path, host: str, url: str) -> None:
    with pytest.raises(ServerError) as error:
        generate.Generate(target(1, tmp_path, host=host))
    assert f"http://{url}:1/generate" in error.value.what


def test_a_dump_taken_before_its_checks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # D10
    def handle(body: Body) -> Reply:
        dump(tmp_path, 0, rid=body["rid"])
        return good(body)

    def gone(*_: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(request, "Dump", gone)
    with server(handle) as port:
        result, _ = ask(port, tmp_path)
    assert "consumer" in bad(result)["dump"]
