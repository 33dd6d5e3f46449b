"""A stand-in for SGLang that starts in milliseconds and does what a control file says. The real one: tests/engine."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote import processes
from remote.patch import operations as patch
from remote.server import launch, record, state, stop
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.plan import Outcome, StepResult
from remote.wire.server import Phase, ServerState
from remote.wire.target import Target
from tests.living import PATIENCE

LISTEN = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
time.sleep(60)
"""
LAUNCH_SERVER = """
import os, signal, socket, subprocess, sys, threading, time
CONTROL = os.environ["SGLANG_STANDIN_CONTROL"]
TRAITS = os.environ.get("SGLANG_STANDIN_TRAITS", "").split(",")
flags = dict(zip(sys.argv[1:-1], sys.argv[2:]))
if "ignore-term" in TRAITS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in TRAITS:
    before = signal.getsignal(signal.SIGTERM)
    if "deaf-child" in TRAITS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which a child is born with
    subprocess.Popen(["sglang::scheduler_TP0", "-c", "import time; time.sleep(600)"], executable=sys.executable)
    signal.signal(signal.SIGTERM, before)
print("server_args={}", flush=True)
if "no-space" in TRAITS:
    sys.exit("Scheduler hit an exception: OSError: [Errno 28] No space left on device")
def mode():
    with open(CONTROL) as file:
        return file.read().strip()
while mode() == "loading":
    time.sleep(0.02)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((flags["--host"], int(flags["--port"])))
listener.listen(16)
def answer(connection):
    request = connection.recv(65536)
    asked = request.split()[1].decode()
    while asked == "/generate" and not request.endswith(b"}"):
        request += connection.recv(65536)
    now = mode()
    if now == "hang":
        time.sleep(600)
    if asked == "/generate" and now == "deaf":
        time.sleep(600)
    if asked == "/generate" and now == "closes":
        pass
    elif asked == "/generate" and now == "200":
        connection.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n{"meta_info": {}}')
    elif asked.startswith("/health") and now in ("200", "deaf", "closes"):
        connection.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 0\\r\\n\\r\\n")
    elif asked == "/server_info":
        connection.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n{"version": "9.9.9", "model_path": "/models/stand-in"}')
    elif asked.startswith("/v1/loads"):
        body = b'{"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 3}]}'
        connection.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n" + body)
    else:
        connection.sendall(f"HTTP/1.1 {now if now.isdigit() and now != '200' else 404} x\\r\\n\\r\\n".encode())
    connection.close()
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"""
SERVER_ARGS = """
class ServerArgs:
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    host: A[str, "x"] = ""
    port: A[int, "x"] = 30000
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    device: A[str, "x"] = "cuda"
    dtype: A[str, "x"] = "auto"
    load_format: A[str, "x"] = "auto"
    api_key: A[str, "x"] = None
    enable_mixed_chunk: A[bool, "x"] = False
    skip_server_warmup: A[bool, "x"] = False
    disable_radix_cache: A[bool, "x"] = False
    chunked_prefill_size: A[int, "x"] = None
    cuda_graph_backend_decode: A[str, "x"] = None
    cuda_graph_backend_prefill: A[str, "x"] = None
"""


def until(is_so: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclasses.dataclass
class StandIn:
    """Control of a stand-in server: what it answers, and what kind of process it is."""

    folder: Path
    target: Target

    def says(self, mode: str) -> None:
        """loading: doesn't listen; 200, 503, 500: answers that; hang: to nobody.

        deaf: to nobody but /health; closes: the connections of all others.
        """
        (self.folder / "control.new").write_text(mode)
        (self.folder / "control.new").rename(self.folder / "control")

    def with_traits(self, *traits: str) -> Target:
        return dataclasses.replace(self.target, env={**self.target.env, "SGLANG_STANDIN_TRAITS": ",".join(traits)})

    def command(self) -> list[str]:
        flags = ["--model-path", self.target.model_path, "--host", "127.0.0.1", "--port", str(self.target.port)]
        return [sys.executable, "-m", "sglang.launch_server", *flags]

    def by_hand(self, *traits: str) -> subprocess.Popen[bytes]:
        """Start it as an operator would, not through hsconsole."""
        env = self.with_traits(*traits).env
        return subprocess.Popen(self.command(), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def reaches(self, phase: Phase) -> ServerState:
        deadline = time.monotonic() + PATIENCE
        while (found := state.read(self.target)).phase is not phase:
            assert time.monotonic() < deadline, f"is {found.phase.value}, not {phase.value}: {found.detail}"
            time.sleep(0.02)
        return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    package = tmp_path / "lib" / "sglang"
    (package / "srt" / "entrypoints").mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "9.9.9"\n')
    (package / "version.py").write_text('__version__ = "9.9.9"\n')
    (package / "launch_server.py").write_text(LAUNCH_SERVER)
    (package / "srt" / "server_args.py").write_text(SERVER_ARGS)
    (package / "srt" / "entrypoints" / "http_server.py").write_text("")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["X"], "num_hidden_layers": 61, "hidden_size": 64}')
    env = {"PYTHONPATH": str(tmp_path / "lib"), "SGLANG_STANDIN_CONTROL": str(tmp_path / "control")}
    flags = ("--device cpu", "--load-format dummy")
    dumps = tmp_path / "dumps"
    target = Target(sys.executable, str(model), "127.0.0.1", free_port(), flags=flags, env=env, dump_dir=str(dumps))
    applied = PatchStatus(PatchState.APPLIED, sys.executable, "applied", file_sha256="f" * 64)
    monkeypatch.setattr(patch, "status", lambda _: applied)  # the stand-in has no model file to patch
    monkeypatch.setattr(stop, "ORPHAN_WAIT", 0.5)
    monkeypatch.setattr(launch, "SECOND_LOOK", 0.1)  # a test that waits for more says so
    made = StandIn(tmp_path, target)
    made.says("loading")
    before = {process.identity for process in processes.table().values()}
    yield made
    _end_all(str(tmp_path), before)


def _end_all(folder: str, before: set[processes.Identity]) -> None:
    """End what the test started: processes whose environment names its folder."""
    for process in processes.table().values():
        if process.identity not in before and processes.environ(process.pid).get("PYTHONPATH", "").startswith(folder):
            with contextlib.suppress(OSError):
                processes.send(process.identity, signal.SIGKILL)


def start(target: Target) -> record.Record:
    """Start it, and wait until it has become what its traits say."""
    assert launch.start(target, launch.plan(target).basis, lambda _: None).ok
    found = record.read(target.port)
    assert found is not None
    until(lambda: "server_args" in Path(found.log).read_text())
    return found


def stopped(target: Target) -> tuple[Outcome, list[StepResult]]:
    steps: list[StepResult] = []
    return stop.stop(target, stop.plan(target).basis, steps.append), steps
