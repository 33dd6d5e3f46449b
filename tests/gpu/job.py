"""`python3 -m tests.gpu.job`: the main job on a real GPU, and how far the canary's figures are from their tolerances.

The product's own operations, called as its agent calls them: patch, preflight, start, test request, canary, stored
dumps replayed, stop with its proof. Four layers as wide as Kimi K2.5's, weights in files: logprobs can be compared.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from remote.canary import canary, replay
from remote.dumps import request, verify
from remote.dumps.dump import Dump
from remote.patch import operations as patch
from remote.server import launch, preflight, state, stop
from remote.telemetry import gpus
from remote.wire.dumps import Level
from remote.wire.plan import Check, Outcome, Plan, StepResult, Verdict
from remote.wire.server import Phase
from remote.wire.target import Target

from . import bundle
from .__main__ import FLAGS, ROOT, say
from .server import ask

PORT = 8300
LAYERS = 4
CAPTURED = (1, 2, 3)
CANARIES, STORED = 5, 48


def write_weights(folder: Path) -> None:
    """Random, the same at each start, in safetensors."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = {**bundle.MODEL, "num_hidden_layers": LAYERS}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            weight.copy_(1 + 0.1 * noise if "norm" in name else 0.02 * noise)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))  # save_pretrained rewrites it in another spelling


class Job:
    def __init__(self, work: Path, out: Path) -> None:
        self.found: dict[str, Any] = {}
        self.out = out
        site, model = work / "site", work / "model"
        bundle.unpack(ROOT / ".gpu" / "site312.tar.xz", site)
        sys.path.insert(0, str(site))
        # in a process of its own: this one must hold no GPU memory when the preflight looks
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
            other.submit(write_weights, model).result()
        flags = FLAGS.replace("--load-format dummy", "").split()
        self.target = Target(
            sys.executable,
            str(model),
            host="127.0.0.1",
            port=PORT,
            flags=(*flags, "--mem-fraction-static", "0.5"),
            env={"PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"},
            dump_dir="/dev/shm/sglang_hs_job",
            layers=CAPTURED,
        )

    def run(self) -> None:
        idle = self.gpus("idle")
        self.act("patch", patch.plan_apply, patch.apply)
        for check in preflight.examine(self.target).checks:
            self.tell("preflight", check)
        self.act("start", launch.plan, launch.start)
        try:
            self.until_ready()
            self.gpus("loaded")
            for check in request.test(self.target, lambda _: None).checks:
                self.tell("test request", check)
            for number in range(CANARIES):
                found = canary.run(self.target, lambda _: None)
                self.found[f"canary {number}"] = f"{found.verdict.value} in {found.seconds:.1f} s"
                for check in found.checks:
                    self.tell(f"canary {number}", check)
            self.stored()
        finally:
            self.act("stop", stop.plan, stop.stop)
            self.found["gpu memory back"] = self.gpus("after") == idle

    def stored(self) -> None:
        """Dumps of prompts that came many at once, each replayed alone: other passes, other shapes of kernels."""
        dice = random.Random(1)
        prompts = {
            f"job-{k}": [dice.randrange(2, bundle.VOCABULARY) for _ in range(dice.randrange(8, 3000))]
            for k in range(STORED)
        }
        with concurrent.futures.ThreadPoolExecutor(STORED) as pool:
            list(pool.map(functools.partial(ask, f"http://127.0.0.1:{PORT}"), prompts, prompts.values()))
        time.sleep(2)
        names = verify.names_of(self.target.dump_dir, None)
        for level in (Level.STRUCTURE, Level.CONTENT):
            done = verify.verify(
                self.target.dump_dir, self.target.model_path, names, level, lambda _: None, threading.Event()
            )
            self.found[f"{level.value} of {len(names)}"] = f"{done}"
        for name in names:
            for check in replay.checks(self.target, Dump(f"{self.target.dump_dir}/{name}", int(name[4:]))):
                self.tell("replayed", check)

    def until_ready(self) -> None:
        started = time.monotonic()
        while (seen := state.read(self.target)).phase is not Phase.READY:
            if time.monotonic() - started > 120 or seen.phase is Phase.CRASHED:
                raise RuntimeError(f"{seen}")
            time.sleep(1)
        self.found["ready after"] = round(time.monotonic() - started, 1)

    def act(self, name: str, plan: Any, run: Any) -> None:
        planned: Plan = plan(self.target)
        say(f"{name}: {planned.title}")
        if planned.needed:
            steps: list[StepResult] = []
            outcome: Outcome = run(self.target, planned.basis, steps.append)
            self.found[name] = [outcome.summary, *(f"{step.title}: {step.ok} {step.detail}" for step in steps)]

    def gpus(self, when: str) -> int:
        seen = gpus.read()
        self.found[f"gpus {when}"] = f"{seen}"
        return sum(gpu.memory_used or 0 for gpu in seen.gpus) >> 28

    def tell(self, name: str, check: Check) -> None:
        self.found.setdefault(name + " checks", []).append(f"{check.verdict.value}: {check.name}: {check.found}")
        (self.out / "job.json").write_text(json.dumps(self.found, indent=1))
        if check.verdict is Verdict.BAD:
            say(f"{name}: {check}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.job", description=__doc__)
    parser.add_argument("--out", default=os.environ.get("OUT", "."), help="where logs and job.json go")
    out = Path(parser.parse_args().out)
    os.environ["XDG_STATE_HOME"] = str(out)
    with tempfile.TemporaryDirectory(prefix="hs-job-") as work:
        job = Job(Path(work), out)
        try:
            job.run()
        finally:
            shutil.rmtree(job.target.dump_dir, ignore_errors=True)
            say(json.dumps(job.found, indent=1))


if __name__ == "__main__":
    main()
