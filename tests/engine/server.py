"""The product's own server on a stage, as tests drive it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import random
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from console.client import AgentClient, connect
from console.demo.stage import Stage
from console.operations import calls, follow
from remote.wire.server import Phase

HERE = Path(__file__).parent
LIMIT = 1e-5  # relative error in fp32


class Server:
    """A running server that dumps. act: run an action of the product on it."""

    def __init__(self, agent: AgentClient, stage: Stage) -> None:
        self.agent = agent
        self.stage = stage
        self.folder = Path(stage.profile.dump.folder)
        self.port = stage.profile.server.port

    def act(self, action: str) -> None:
        plan = calls.plan(self.agent, action)
        outcome = calls.run(self.agent, self.stage.profile, plan, lambda step: None)
        assert outcome.ok, outcome

    def start(self) -> None:
        self.act("server.start")
        state = follow.until_ready(self.agent, lambda state: None)
        assert state.phase is Phase.READY, state

    def ask(self, rid: str, ids: list[int]) -> None:
        assert self.generate(rid, input_ids=ids)["meta_info"]["prompt_tokens"] == len(ids)

    def generate(self, rid: str, **prompt: Any) -> Any:
        body = {**prompt, "rid": rid, "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        request = urllib.request.Request(
            self._url("generate"), json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def get(self, path: str) -> None:
        with urllib.request.urlopen(self._url(path), timeout=60) as answer:
            assert answer.status == 200

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def ask_all(self, prompts: dict[str, list[int]], at_once: int) -> None:
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self.ask, prompts, prompts.values()))

    def metas(self) -> dict[str, dict[str, Any]]:
        """rid → metadata of all that is done."""
        read = [json.loads((done.parent / "meta.json").read_text()) for done in self.folder.glob("req_*/done")]
        assert len({meta["rid"] for meta in read}) == len(read)
        return {meta["rid"]: meta for meta in read}

    def errors(self) -> dict[str, dict[str, str]]:
        """rid → cause and detail of all that could not be dumped."""
        found = {path.parent: json.loads(path.read_text()) for path in self.folder.glob("req_*/error")}
        return {json.loads((request / "meta.json").read_text())["rid"]: error for request, error in found.items()}

    def counters(self) -> dict[str, Any]:
        """Of the process that dumps, as it last wrote them, which it does once a second."""
        for path in self.folder.glob(".stats/*.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {}

    def compared(self) -> dict[str, dict[str, Any]]:
        """What reference.py says of every dump: req_N → its rid, its ids, and the error of each tensor."""
        engine = self.stage.engine
        command = [engine.python, HERE / "reference.py", Path(self.stage.profile.server.model_path), self.folder]
        environment = {**os.environ, **self.stage.profile.server.env}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        found: dict[str, dict[str, Any]] = json.loads(done.stdout)
        return found


@contextlib.contextmanager
def product(stage: Stage) -> Iterator[Server]:
    """Nothing is patched or started yet. Afterwards the server is stopped and the patch reverted, whatever happened."""
    agent = connect(stage.profile)
    try:
        yield Server(agent, stage)
    finally:
        for action in ("server.stop", "patch.revert"):
            plan = calls.plan(agent, action)
            if plan.needed:
                calls.run(agent, stage.profile, plan, lambda step: None)
        agent.close()


def prompts(name: str, count: int, longest: int) -> dict[str, list[int]]:
    dice = random.Random(name)
    return {f"{name}-{k}": [dice.randrange(2, 512) for _ in range(dice.randint(1, longest))] for k in range(count)}


def wait_for(what: str, seen: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline, f"no {what} after {seconds:.0f} s"
        time.sleep(0.05)
