"""Servers of other releases of SGLang in the engine's environment, each in a folder that comes first on its path."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from console.demo.engine import ENVIRONMENT, Engine, cache_folder
from console.demo.profile import FLAGS, LAYERS
from console.demo.sshd import free_port
from remote.patch import operations
from remote.wire.patch import PatchState
from remote.wire.target import Target
from tests.engine.server import wait_for
from tests.schema import problems_in

HERE = Path(__file__).parent
QUIET = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"
GRAPHS_OFF = ("--cuda-graph-backend-decode=disabled", "--cuda-graph-backend-prefill=disabled")


@dataclasses.dataclass(frozen=True)
class Release:
    """packages: what it needs in other versions than the engine has. changes: see inside/sitecustomize.py."""

    version: str
    packages: tuple[str, ...] = ()
    graphs_off: tuple[str, ...] = GRAPHS_OFF
    changes: tuple[str, ...] = ()


RELEASES = {
    release.version: release
    for release in (
        Release("0.5.23"),
        Release("0.5.20"),
        Release("0.5.16", ("transformers==5.12.1", "tokenizers==0.22.2")),
        Release(
            "0.5.12.post1",
            ("transformers==5.6.0", "tokenizers==0.22.2"),
            ("--disable-cuda-graph", "--disable-piecewise-cuda-graph"),
            ("kernels",),
        ),
        Release(
            "0.5.9",
            ("transformers==4.57.1", "tokenizers==0.22.2", "huggingface_hub<1.0"),
            ("--disable-cuda-graph",),
            ("kernels", "dispatch"),
        ),
    )
}


def _overlay(engine: Engine, release: Release) -> Path:
    """Its packages, installed once in the cache folder; the engine's own release is copied."""
    folder = cache_folder() / "releases" / release.version
    if (folder / ".complete").exists():
        return folder
    (site,) = engine.folder.glob("venv/lib/python3*/site-packages")
    own = f"sglang-{release.version}.dist-info"
    if (site / own).exists():
        assert operations.status(Target(str(engine.python), str(engine.model))).state is PatchState.CLEAN
        for name in ("sglang", own):
            shutil.copytree(site / name, folder / name, dirs_exist_ok=True)
    else:
        pip: list[str | Path] = [engine.python, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        packages = (f"sglang=={release.version}", *release.packages)
        subprocess.run([*pip, "--target", folder, *packages], check=True, timeout=600)
    (folder / ".complete").touch()
    return folder


class Server:
    """A running server that dumps into `folder`."""

    def __init__(self, folder: Path, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.folder = folder
        self.log = log
        self.url = url
        self._process = process

    def until_ready(self, seconds: float = 600) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, OSError):
                if urllib.request.urlopen(f"{self.url}/health", timeout=2).status == 200:
                    return
            time.sleep(0.3)
        raise AssertionError(f"the server did not start:\n{self.log.read_text(errors='replace')[-3000:]}")

    def until_said(self, words: str, seconds: float = 600) -> None:
        """In its log. It need not become ready."""
        deadline = time.monotonic() + seconds
        while words not in self.log.read_text(errors="replace"):
            running = self._process.poll() is None and time.monotonic() < deadline
            assert running, f"not said: {words}\n{self.log.read_text(errors='replace')[-3000:]}"
            time.sleep(0.2)

    def ask(self, rid: str, ids: list[int]) -> None:
        assert self.generate(rid, input_ids=ids)["meta_info"]["prompt_tokens"] == len(ids)

    def generate(self, rid: str, tokens: int = 2, **prompt: Any) -> Any:
        """What the server answers to a prompt; `tokens` are generated."""
        sampling = {"max_new_tokens": tokens, "temperature": 0}
        body = json.dumps({**prompt, "rid": rid, "sampling_params": sampling}).encode()
        request = urllib.request.Request(f"{self.url}/generate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def ask_all(self, prompts: Mapping[str, list[int]], at_once: int = 16) -> None:
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self.ask, prompts, prompts.values()))

    def ended(self, count: int) -> list[dict[str, Any]]:
        """Metadata of `count` requests, with `error` where there is one, when so many have ended."""
        wait_for(f"{count} requests", lambda: len(self._requests()) >= count)
        found = self.metas()
        assert len(found) == count
        assert problems_in(self.folder) == []
        return found

    def metas(self) -> list[dict[str, Any]]:
        """Metadata of the requests that have ended, with `error` where there is one."""
        found = []
        for request in self._requests():
            meta = json.loads((request / "meta.json").read_text())
            error = request / "error"
            found.append({**meta, "error": json.loads(error.read_text()) if error.exists() else None})
        return found

    def _requests(self) -> list[Path]:
        return list(self.folder.glob("req_*"))

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _low_port() -> int:
    """A free one; 0.5.12 also takes the one that is 10,000 higher."""
    while True:
        port = free_port()
        if port < 55_000:
            return port


@contextlib.contextmanager
def serving(engine: Engine, version: str, work: Path, *flags: str, **more: Any) -> Iterator[Server]:
    """A server as `launched` has it, when it is ready."""
    with launched(engine, version, work, *flags, **more) as server:
        server.until_ready()
        yield server


@contextlib.contextmanager
def launched(
    engine: Engine,
    version: str,
    work: Path,
    *flags: str,
    changes: tuple[str, ...] = (),
    env: Mapping[str, str] = MappingProxyType({}),
    without: Collection[str] = (),
    model: Path | None = None,
) -> Iterator[Server]:
    """The release's server, patched by the product, with `flags` beyond those that it needs on a CPU.

    without: flags and variables that every other server has.
    """
    release = RELEASES[version]
    path = f"{HERE / 'inside'}:{_overlay(engine, release)}"
    dumps, port, log = work / "dumps", _low_port(), work / "server.log"
    target = Target(
        str(engine.python), str(model or engine.model), env={"PYTHONPATH": path}, dump_dir=str(dumps), layers=LAYERS
    )
    _patch(target)
    usual = [flag for flag in (*FLAGS, *release.graphs_off, "--skip-server-warmup") if flag not in without]
    command = [target.python, "-m", "sglang.launch_server", "--model-path", target.model_path, "--host=127.0.0.1"]
    command += [f"--port={port}", *usual, *flags]
    settings = {**_settings(target), "HS_TEST": ",".join((*release.changes, *changes)), **env}
    settings = {name: value for name, value in settings.items() if name not in without}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    server = Server(dumps, f"http://127.0.0.1:{port}", process, log)
    try:
        yield server
    finally:
        server.stop()


def _patch(target: Target) -> None:
    plan = operations.plan_apply(target)
    if plan.needed:
        operations.apply(target, plan.basis, lambda _: None)


def _settings(target: Target) -> dict[str, str]:
    """What a server of the target has in its environment."""
    layers = ",".join(map(str, target.layers))
    dumping = {"SGLANG_HS_DUMP_DIR": target.dump_dir, "SGLANG_HS_DUMP_LAYERS": layers, QUIET: "0"}
    return {**ENVIRONMENT, **target.env, **dumping}


def compared(engine: Engine, folder: Path, model: Path | None = None) -> dict[str, dict[str, Any]]:
    """rid → what reference.py says about its dump."""
    command = [engine.python, HERE / "reference.py", model or engine.model, folder]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **ENVIRONMENT}
    )
    assert done.returncode == 0, done.stderr
    return {found["rid"] or f"#{number}": found for number, found in json.loads(done.stdout).items()}
