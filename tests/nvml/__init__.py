"""A libnvidia-ml of the tests' own, and the real agent that reads it with the real pynvml."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remote.wire.codec import decode
from remote.wire.telemetry import GpuSnapshot
from tests.living import PATIENCE

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"
GIB = 1 << 30

# Codes of NVML's
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LOST, MISMATCH, UNKNOWN = 3, 4, 9, 15, 18, 999
UNINITIALIZED = 1

# The agent as it is, but it looks more often, and has another patience with the driver.
BOOT = """\
from remote.telemetry import gpus, watch
gpus.PATIENCE, gpus.PAUSE, watch.AGAIN = {patience}, 0.05, 0.3
from remote.__main__ import main
main()
"""


def build(folder: Path, *options: str) -> Path:
    """The folder, with the library in it."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", *options]
    subprocess.run([*command, "-o", str(folder / NAME), str(SOURCE)], check=True)
    return folder


def of_other_architecture(good: Path, folder: Path) -> Path:
    """The library as the linker of this machine refuses it: its header says 32 bits."""
    folder.mkdir(parents=True)
    data = bytearray((good / NAME).read_bytes())
    data[4] = 1
    (folder / NAME).write_bytes(data)
    return folder


def usual(count: int, used: int = 90 * GIB) -> list[str]:
    """A plan: `count` H200s with a process on each."""
    fields = {"name": "NVIDIA H200", "total": 141 * GIB, "used": used, "processes": 1}
    fields |= {"utilization": 7, "milliwatts": 312345, "celsius": 61}
    return [f"lib.count {count}", *(f"*.{key} {value}" for key, value in fields.items())]


class Driver:
    """What the library says from now on."""

    def __init__(self, plan: Path) -> None:
        self.plan = plan

    def says(self, *lines: str) -> None:
        aside = self.plan.with_suffix(".new")
        aside.write_text("".join(f"{line}\n" for line in lines))
        aside.replace(self.plan)


class Agent:
    """The real agent in a process of its own, its frames over pipes. library: folder of the libnvidia-ml, if any.

    patience: seconds for an answer of the driver; short only where there will be none, for a machine may be busy.
    """

    def __init__(
        self, driver: Driver, library: Path | None, *options: str, path: str | None = None, patience: float = PATIENCE
    ) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "NVML_PLAN": str(driver.plan)}
        env |= {"LD_LIBRARY_PATH": str(library)} if library else {}
        env |= {} if path is None else {"PATH": path}
        command = [sys.executable, *options, "-c", BOOT.format(patience=patience), "--nonce", "n"]
        self._number = 1000
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._frames: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        self._next("hello", lambda frame: "hello" in frame)

    def call(self, number: int, name: str, **args: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "call": name, "args": args}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, name: str) -> Any:
        self._number += 1
        number = self._number
        self.call(number, name)
        frame = self._next(name, lambda frame: frame.get("id") == number and "event" not in frame)
        assert "ok" in frame, frame
        return frame["ok"]

    def gpus(self) -> GpuSnapshot:
        return decode(GpuSnapshot, self.ask("gpus"))

    def watch(self) -> None:
        self.call(1, "watch.gpus")

    def watched(self, what: str, is_so: Callable[[GpuSnapshot], object], seconds: float = PATIENCE) -> GpuSnapshot:
        """The next event of the stream that is so."""

        def is_it(frame: dict[str, Any]) -> object:
            return frame.get("id") == 1 and "event" in frame and is_so(decode(GpuSnapshot, frame["event"]))

        return decode(GpuSnapshot, self._next(what, is_it, seconds)["event"])

    def close(self) -> float:
        """Leave as the console does; the seconds that the agent takes to end."""
        assert self.process.stdin is not None
        began = time.monotonic()
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return time.monotonic() - began

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _next(self, what: str, is_it: Callable[[dict[str, Any]], object], seconds: float = PATIENCE) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                frame = self._frames.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"waited in vain for {what}") from None
            if is_it(frame):
                return frame

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._frames.put(json.loads(line.removeprefix(b"n ")))
