"""Stands in for remote/agent/calls.py in the agents of these tests: calls that do what calls can do, good or bad."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remote.wire.dumps import Canary
from remote.wire.errors import Refused
from remote.wire.plan import StepResult, Verdict
from remote.wire.target import Target


@dataclasses.dataclass
class Context:
    target: Target | None
    emit: Callable[[Any], None]
    cancelled: threading.Event


def flood(context: Context, count: int) -> int:
    """Write `count` bytes to stdout, as a careless library would, and to stderr at once; then as many in the answer."""
    writers = [threading.Thread(target=os.write, args=(fd, b"x" * count)) for fd in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    print("a print in a handler")
    return count


def refuse(context: Context) -> None:
    raise Refused("it is Sunday", "Wait for Monday.")


def steps(context: Context, count: int, pause: float) -> str:
    for number in range(count):
        time.sleep(pause)
        context.emit(number)
    return "done"


def ticks(context: Context, pause: float = 0.1) -> None:
    number = 0
    while not context.cancelled.wait(pause):
        context.emit({"number": number, "pid": os.getpid()})
        number += 1


def until_cancelled(context: Context) -> str:
    context.emit("begun")
    context.cancelled.wait(60)
    return "cancelled" if context.cancelled.is_set() else "never cancelled"


def canary(context: Context, ticket: Any = None) -> Canary:
    """Its first request takes as long as a compiler: until it is cancelled."""
    context.emit(StepResult("prompt", True, "req_1"))
    stopped = context.cancelled.wait(60)
    return Canary(Verdict.UNKNOWN if stopped else Verdict.OK, 1.0, (), (), stopped)


def wide(context: Context, size: int) -> None:
    while not context.cancelled.is_set():
        context.emit("x" * size)


def once(context: Context, path: str, seconds: float = 0.3) -> int:
    """How often this was run: two lines in a file each time, one now and one `seconds` later."""
    with Path(path).open("a") as file:
        file.write("begun\n")
    time.sleep(seconds)
    with Path(path).open("a") as file:
        file.write("ended\n")
    return Path(path).read_text().count("ended")


def log(context: Context, after: str = "") -> None:
    lines = [f"after {after}"] if after else ["a", "b"]
    context.emit({"lines": lines, "path": "/l", "place": "the place of b"})
    context.cancelled.wait()


def frames_descriptor() -> int:
    """Where the agent writes its frames: the last pipe it opened."""
    entries = [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return max(int(e.name) for e in entries if str(e.readlink()).startswith(("pipe:", "socket:")))


CALLS: dict[str, Callable[..., Any]] = {
    "ping": lambda c: {"now": time.time()},
    "echo": lambda c, value: value,
    "big": lambda c, count: "x" * count,
    "flood": flood,
    "refuse": refuse,
    "fault": lambda c: [][0],
    "unencodable": lambda c: object(),
    "steps": steps,
    "until_cancelled": until_cancelled,
    "canary": canary,
    "sleep": lambda c, seconds: time.sleep(seconds),
    "target": lambda c: c.target,
    "once": once,
    "run": once,
    "recover.end": once,
    "exit": lambda c, status: os._exit(status),
    "die": lambda c, word: (sys.stderr.write(word + "\n"), sys.stderr.flush(), os._exit(3)),
    "read": lambda c: sys.stdin.read(),
    "garbage": lambda c: os.write(frames_descriptor(), b"\xff\x00{]\n"),
    "path": lambda c: (sys.argv[0], sys.executable, os.environ.get("PYTHONPATH")),
    "watch.ticks": ticks,
    "watch.wide": wide,
    "watch.fault": lambda c: [][0],
    "watch.ends": lambda c: c.emit("only one"),
    "watch.log": log,
}
