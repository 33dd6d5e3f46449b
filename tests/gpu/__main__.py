"""`python3 -m tests.gpu [--tp 2]`: dump on against dump off, in turn, on two servers of one machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from remote.patch import operations
from remote.wire.target import Target

from . import bundle, check, disk
from .server import Prompts, Server, running

ROOT = Path(__file__).parents[2]
DUMPS, WITNESS = Path("/dev/shm/sglang_hs"), Path("/dev/shm/sglang_hs_witness")
AT_ONCE = 64
FLAGS = """
    --load-format dummy --skip-tokenizer-init --attention-backend triton --sampling-backend pytorch
    --grammar-backend none --moe-runner-backend triton --disable-cuda-graph --disable-radix-cache
    --chunked-prefill-size -1 --max-prefill-tokens 16384 --disable-shared-experts-fusion --skip-server-warmup
"""
# NVLink multicast stays off: a shared machine must not use it.
FLAGS_RANKS = ("--disable-custom-all-reduce", "--enforce-disable-flashinfer-allreduce-fusion")


def prompts(count: int, name: str) -> Prompts:
    dice = random.Random(0)
    return {
        f"{name}-{k}": [dice.randrange(2, bundle.VOCABULARY) for _ in range(dice.randrange(500, 4206))]
        for k in range(count)
    }


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.tp: int = options.tp
        self.rounds: int = options.rounds
        self.count: int = options.prompts
        self.work = Path(options.work)
        self.out = Path(options.out)
        self.site, self.model = self.work / "site", self.work / "model"
        self.found: dict[str, Any] = {"tp": self.tp, "prompts": self.count, "at_once": AT_ONCE}

    def prepare(self) -> None:
        bundle.unpack(ROOT / ".gpu" / "site312.tar.xz", self.site)
        bundle.write_model(self.model)
        target = Target(sys.executable, str(self.model), env={"PYTHONPATH": str(self.site)}, dump_dir=str(DUMPS))
        plan = operations.plan_apply(target)
        outcome = operations.apply(target, plan.basis, lambda step: say(f"patch: {step.title}"))
        say(f"patch: {outcome.summary}")
        for folder in (DUMPS, WITNESS):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.witness("off")

    def witness(self, mode: str) -> None:
        (WITNESS / "mode.new").write_text("" if mode == "off" else mode)
        (WITNESS / "mode.new").rename(WITNESS / "mode")

    def server(self, port: int, memory: float, dumps: bool) -> Any:
        """A server on its own port beside the other one; `memory`: SGLang's share of what is free."""
        environment = {
            "PYTHONPATH": f"{Path(__file__).parent / 'inside'}:{self.site}",
            "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
            "HF_HUB_OFFLINE": "1",
            "HS_WITNESS": str(WITNESS),
            "HS_WITNESS_LAYERS": ",".join(map(str, bundle.LAYERS)),
            **({"SGLANG_HS_DUMP_DIR": str(DUMPS)} if dumps else {}),
        }
        command = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(self.model), *FLAGS.split()]
        command += ["--mem-fraction-static", str(memory)]
        if self.tp > 1:
            command += ["--tp", str(self.tp), *FLAGS_RANKS]
        return running(command, port, environment, self.out / f"server-{'on' if dumps else 'off'}.log")

    def run(self) -> None:
        self.prepare()
        with contextlib.ExitStack() as servers:
            off = servers.enter_context(self.server(8100, 0.35, False)) if self.tp == 1 else None
            if off is not None:
                say(f"dump off: ready after {off.until_ready(240):.0f} s")
                off.tokens_per_second(prompts(16, "warm"), 16)
            on = servers.enter_context(self.server(8200, 0.45, True))
            say(f"dump on: ready after {on.until_ready(240):.0f} s")
            on.tokens_per_second(prompts(16, "warm"), 16)
            self.first(on)
            if off is not None:
                self.in_turn(off, on)
                self.naive(off)
            self.checked(on)

    def first(self, on: Server) -> None:
        """What the very first requests of a server cost its forward: nothing may be cold."""
        self.drained(16)
        self.found["forward_ms_of_the_first_16_requests"] = self.forward({})

    def in_turn(self, off: Server, on: Server) -> None:
        rates: dict[str, list[float]] = {"off": [], "on": []}
        for number in range(self.rounds):
            sent = prompts(self.count, f"round{number}")
            self.clear()
            before = stats()
            # each goes first in turn: what drifts concerns both
            for name, server in sorted({"off": off, "on": on}.items(), reverse=number % 2 == 1):
                rates[name].append(server.tokens_per_second(sent, AT_ONCE))
            self.drained(self.count)
            say(f"round {number}: off {rates['off'][-1]:.0f}, on {rates['on'][-1]:.0f} tokens/s")
            self.found[f"forward_ms_a_request_{number}"] = self.forward(before)
        self.found["tokens_per_second"] = rates
        self.found["on_by_off"] = statistics.median(rates["on"]) / statistics.median(rates["off"])

    def naive(self, server: Server) -> None:
        self.witness("naive")
        rate = server.tokens_per_second(prompts(24, "naive"), 1)
        self.witness("off")
        self.found["naive_one_at_a_time"] = rate
        self.found["on_by_naive"] = statistics.median(self.found["tokens_per_second"]["on"]) / rate
        for path in WITNESS.glob("req_*"):
            shutil.rmtree(path)

    def checked(self, on: Server) -> None:
        """A hundred at once, each row of each tensor against the witness; across ranks where there are several."""
        self.clear()
        sent = prompts(100, "check")
        if self.tp > 1:
            (DUMPS / ".canary").write_text("\n".join(sent))
        self.witness("check")
        on.tokens_per_second(sent, AT_ONCE)
        self.witness("off")
        self.drained(100)
        wrong = check.wrong(DUMPS, sent, WITNESS)
        self.found["right_dumps_of_100"] = 100 - len(wrong)
        self.found["wrong"] = dict(list(wrong.items())[:5])
        for rank in range(1, self.tp):
            self.drained(100, DUMPS / ".ranks" / str(rank))
            self.found[f"unequal_between_ranks_0_and_{rank}"] = check.differing(DUMPS, rank, sent)
        self.found["errors"] = stats()["errors"]

    def clear(self) -> None:
        for path in DUMPS.glob("req_*"):
            shutil.rmtree(path)

    def drained(self, count: int, folder: Path = DUMPS) -> None:
        until(lambda: len(list(folder.glob("req_*/done"))) >= count)
        time.sleep(1.5)  # the counters are written once a second

    def forward(self, before: dict[str, Any]) -> dict[str, float]:
        """Milliseconds of the thread that runs the model, a request and a pass, without and with waiting."""
        now = stats()
        spent, waited, requests, passes = (
            now[key] - before.get(key, 0) for key in ("forward_seconds", "waited_seconds", "requests", "passes")
        )
        return {
            "a_request": round(1000 * spent / requests, 3),
            "a_pass": round(1000 * spent / passes, 3),
            "waited_a_request": round(1000 * waited / requests, 3),
        }


def stats() -> dict[str, Any]:
    """Of the one process that writes."""
    read = [json.loads(path.read_text()) for path in DUMPS.glob(".stats/*.json")]
    (one,) = [told for told in read if told["requests"]]
    found: dict[str, Any] = one
    return found


def until(seen: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            raise RuntimeError(f"dumps are missing: {len(list(DUMPS.glob('req_*/done')))} there")
        time.sleep(0.02)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def options() -> Iterator[argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu", description=__doc__)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=120)
    parser.add_argument("--out", default=os.environ.get("OUT", "."), help="where the servers' logs and bench.json go")
    with tempfile.TemporaryDirectory(prefix="hs-bench-") as work:
        parser.add_argument("--work", default=work)
        yield parser.parse_args()


def main() -> None:
    for given in options():
        bench = Bench(given)
        try:
            if given.tp == 1:
                bench.found["disk_gb_per_second"] = disk.measure(3, 100)
                say(f"disk: {bench.found['disk_gb_per_second']}")
            bench.run()
        finally:
            for folder in (DUMPS, WITNESS):
                shutil.rmtree(folder, ignore_errors=True)
            (bench.out / "bench.json").write_text(json.dumps(bench.found, indent=1))
            say(json.dumps(bench.found, indent=1))


if __name__ == "__main__":
    main()
