"""Ratios of this machine's own figures, measured in one run: `python -m tests.bench`. No test times anything.

Rates are by wall clock, and by what the machine does when nobody else uses it: by processor time × cores, or on one
core by the best of many tries.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from remote.dumps import calibration, verify, watch
from remote.dumps.examine import examine
from remote.dumps.norms import Norms
from remote.telemetry import shm
from remote.wire.dumps import Level
from tests import dumpfaults
from tests.dumpfolder import dump

SMALL, SMALL_TOKENS = 3000, 10  # dumps; × 7168 columns in bfloat16 as in the forerunner's record
LARGE, LARGE_TOKENS, TRIES = 12, 1000, 8
MANY = 100_000
SETTLING, WATCHED = 5.0, 10.0  # seconds
COLUMNS = 7168
CORES = len(os.sched_getaffinity(0))
Row = tuple[str, str, str, str]  # what, by wall clock, by processor time, wanted


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hsconsole-bench-", dir="/dev/shm"))
    try:
        os.environ["XDG_STATE_HOME"] = str(made / ".state")
        yield made
    finally:
        shutil.rmtree(made)


def fill(place: Path, count: int, tokens: int, dtype: str) -> int:
    """Dumps of different prompts with random numbers; their bytes."""
    first = dump(place, 0, ids=range(tokens), columns=8)
    dice = np.random.default_rng(1)
    for at, name in enumerate(dumpfaults.states(first)):
        values = dice.standard_normal((tokens, COLUMNS), "<f4") * (1 + at)
        stored = (values.view("<u4") >> 16).astype("<u2") if dtype == "bfloat16" else values
        dumpfaults.save(first, name, stored, dtype)
    dumpfaults.change(first, hidden_size=COLUMNS, dtype=dtype)
    for number in range(1, count):
        path = place / f"req_{number}"
        shutil.copytree(first, path)
        ids: Any = np.arange(tokens) + number
        dumpfaults.save(path, "input_ids", ids)
        dumpfaults.change(path, counter=number, ids_sha256=dumpfaults.digest(ids))
    return sum(file.stat().st_size for file in place.glob("req_*/*"))


class Seconds(NamedTuple):
    """processor: of this process and its children, divided by the cores."""

    wall: float
    processor: float


def timed(*works: Callable[[], object]) -> list[Seconds]:
    """The best of five of each, by each clock; in turns, so that a change of load meets all of them."""
    rounds = [[_timed(work) for work in works] for _ in range(5)]
    return [
        Seconds(min(one.wall for one in each), min(one.processor for one in each)) for each in zip(*rounds, strict=True)
    ]


def _timed(work: Callable[[], object]) -> Seconds:
    before, started = sum(os.times()[:4]), time.monotonic()
    work()
    return Seconds(time.monotonic() - started, (sum(os.times()[:4]) - before) / CORES)


def verified(place: Path, level: Level) -> None:
    names = verify.names_of(str(place), None)
    found = verify.verify(str(place), "/model", names, level, lambda _: None, threading.Event())
    assert found.ok, found


def examined(place: Path, level: Level, known: Norms | None, name: str) -> None:
    examine(str(place), name, level, known)


def summed(place: Path, kind: str, name: str) -> None:
    """What numpy alone does with the numbers of a dump: read each file, sum it."""
    for file in (place / name).glob("*.pt"):
        if file.stem != "input_ids":
            np.fromfile(file, kind, count=file.stat().st_size // np.dtype(kind).itemsize).sum()


def rate(what: str, amount: float, unit: str, seconds: Seconds, wanted: str = "") -> Row:
    return what, f"{amount / seconds.wall:,.2f} {unit}", f"{amount / seconds.processor:,.2f} {unit}", wanted


def structure() -> Iterator[Row]:
    with folder() as place:
        size = fill(place, SMALL, SMALL_TOKENS, "bfloat16")
        (seconds,) = timed(functools.partial(verified, place, Level.STRUCTURE))
        yield rate(f"structure, {SMALL} dumps of {SMALL_TOKENS} × {COLUMNS}", SMALL, "dumps/s", seconds, ">= 1,000")
        yield rate("  their bytes", size / 1e9, "GB/s", seconds)


def content() -> Iterator[Row]:
    """On one core, in this process, each dump by itself: so each finds a moment in which nobody else computes."""
    for dtype, kind in (("bfloat16", "<u2"), ("float32", "<f4")):
        with folder() as place, np.errstate(all="ignore"):
            size = fill(place, LARGE, LARGE_TOKENS, dtype) / 1e9 / LARGE
            names = verify.names_of(str(place), None)
            known = calibration.learn(str(place), names)
            looks = {
                f"numpy reads and sums {LARGE_TOKENS} rows of {dtype}": functools.partial(summed, place, kind),
                "  structure of the same: their checksums": functools.partial(examined, place, Level.STRUCTURE, None),
                "  content of the same: checksums, numbers": functools.partial(examined, place, Level.CONTENT, known),
            }
            works = [functools.partial(look, name) for name in names[:TRIES] for look in looks.values()]
            found = [min(one.wall for one in timed(*works)[at :: len(looks)]) for at in range(len(looks))]
            for what, seconds in zip(looks, found, strict=True):
                yield what, "", f"{size / seconds:.2f} GB/s", ""
            yield "  ratio of content to numpy", "", f"{found[0] / found[2]:.2f}", ">= 0.5"


def listing() -> Iterator[Row]:
    with folder() as place:
        meta = json.loads((dump(place, 0) / "meta.json").read_text())
        for number in range(1, MANY):
            path = place / f"req_{number}"
            path.mkdir()
            (path / "done").touch()
            if number >= MANY - 60:
                (path / "meta.json").write_text(json.dumps({**meta, "counter": number}))
        looks: dict[str, Callable[[], object]] = {
            f"names of {MANY:,} dumps, ready to verify": lambda: verify.names_of(str(place), None),
            f"the newest 50 of {MANY:,}, and all counts": lambda: watch.newest(str(place), 50),
        }
        for what, look in looks.items():
            (seconds,) = timed(look)
            yield what, f"{seconds.wall:.2f} s", f"{seconds.processor * CORES:.2f} s", ""


def watching() -> Iterator[Row]:
    """What the agent's two watches of the folder take, at rest and while dumps come and a consumer takes others."""
    for count in (1000, MANY):
        with folder() as place:
            first = dump(place, 0, ids=range(SMALL_TOKENS))
            for number in range(1, count):
                if number >= count - 1000:
                    shutil.copytree(first, place / f"req_{number}")
                else:
                    (place / f"req_{number}").mkdir()
                    (place / f"req_{number}" / "done").touch()
            for a_second in (0, 10):
                spent = _watched(place, count + 1000 * a_second, a_second)
                yield f"watching {count:,} dumps, {a_second} new and {a_second} taken a second", "", spent, ""


def _watched(place: Path, number: int, a_second: int) -> str:
    cancelled = threading.Event()
    threads = [
        threading.Thread(target=watch.watch, args=(str(place), 1000, lambda _: None, cancelled)),
        threading.Thread(target=shm.watch, args=(str(place), lambda _: None, cancelled)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(SETTLING)
    began, own, end = time.process_time(), time.thread_time(), time.monotonic() + WATCHED
    while time.monotonic() < end:
        if a_second:
            shutil.copytree(place / "req_0", place / f"req_{number}")
            taken = place / f"req_{number - 5}"
            if taken.exists():
                shutil.rmtree(taken)
            number += 1
        time.sleep(1 / (a_second or 1))
    spent = time.process_time() - began - (time.thread_time() - own)
    cancelled.set()
    for thread in threads:
        thread.join()
    return f"{1000 * spent / WATCHED:.0f} ms/s"


def main() -> None:
    machine = f"{platform.machine()}, {CORES} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{'':<60} {'wall':>18} {'unshared':>18}")
    for part in (structure, content, listing, watching):
        for what, wall, processor, wanted in part():
            print(f"{what:<60} {wall:>18} {processor:>18} {wanted:>10}", flush=True)


if __name__ == "__main__":
    main()
