"""A running SGLang that is asked many prompts at once."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Prompts = Mapping[str, Sequence[int]]  # request id → input ids


class Server:
    """url: where it listens. process: its first one, leader of a session of its own."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._process = process
        self._log = log

    def until_ready(self, seconds: float) -> float:
        """Seconds until /health says 200. Raises RuntimeError with the end of the log."""
        start = time.monotonic()
        while time.monotonic() - start < seconds and self._process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, OSError):
                if urllib.request.urlopen(f"{self.url}/health", timeout=2).status == 200:
                    return time.monotonic() - start
            time.sleep(0.5)
        raise RuntimeError(f"the server did not start:\n{self._log.read_text(errors='replace')[-4000:]}")

    def tokens_per_second(self, prompts: Prompts, at_once: int) -> float:
        """Of all prompts together, from the first question to the last answer."""
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            list(pool.map(functools.partial(ask, self.url), prompts, prompts.values()))
        return sum(map(len, prompts.values())) / (time.monotonic() - start)

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
                return


def ask(url: str, rid: str, ids: Sequence[int]) -> None:
    """One request of the server at `url`. Raises RuntimeError when it took other than these ids."""
    body = {"input_ids": list(ids), "rid": rid, "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
    request = urllib.request.Request(f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        found: dict[str, Any] = json.load(answer)
    if found["meta_info"]["prompt_tokens"] != len(ids):
        raise RuntimeError(f"{rid}: {found['meta_info']} for {len(ids)} ids")


@contextlib.contextmanager
def running(command: Sequence[str], port: int, environment: Mapping[str, str], log: Path) -> Iterator[Server]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(port, process, log)
    try:
        yield server
    finally:
        server.stop()
