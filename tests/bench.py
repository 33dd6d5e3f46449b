"""Ratios of this machine's own figures, measured in one run: `python -m tests.bench`. No test times anything.

Rates are by wall clock, and by processor time × cores: what the machine does when nobody else uses it.
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

from remote.dumps import verify, watch
from remote.wire.dumps import Level
from tests import dumpfaults
from tests.dumpfolder import dump

SMALL, SMALL_TOKENS = 3000, 10  # dumps; × 7168 columns in bfloat16 as in the forerunner's record
LARGE, LARGE_TOKENS = 33, 1000  # enough dumps for their norms to be kept: learning is not what is measured
MANY = 100_000
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


def summed(place: Path, kind: str) -> None:
    """What numpy alone does with the same bytes, on every core: read a file, sum its numbers."""
    files = [file for file in sorted(place.glob("req_*/*.pt")) if file.stem != "input_ids"]
    share = -(-len(files) // CORES)

    def part(own: list[Path]) -> None:
        for file in own:
            size = file.stat().st_size // 4 * 4
            np.fromfile(file, kind, count=size // np.dtype(kind).itemsize).sum(dtype="f4" if kind == "<f4" else None)

    with np.errstate(all="ignore"):
        threads = [threading.Thread(target=part, args=(files[at : at + share],)) for at in range(0, len(files), share)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def rate(what: str, amount: float, unit: str, seconds: Seconds, wanted: str = "") -> Row:
    return what, f"{amount / seconds.wall:,.2f} {unit}", f"{amount / seconds.processor:,.2f} {unit}", wanted


def structure() -> Iterator[Row]:
    with folder() as place:
        size = fill(place, SMALL, SMALL_TOKENS, "bfloat16")
        (seconds,) = timed(functools.partial(verified, place, Level.STRUCTURE))
        yield rate(f"structure, {SMALL} dumps of {SMALL_TOKENS} × {COLUMNS}", SMALL, "dumps/s", seconds, ">= 1,000")
        yield rate("  their bytes", size / 1e9, "GB/s", seconds)


def content() -> Iterator[Row]:
    for dtype, kind in (("bfloat16", "<u2"), ("float32", "<f4")):
        with folder() as place:
            size = fill(place, LARGE, LARGE_TOKENS, dtype) / 1e9
            verified(place, Level.CONTENT)  # learns the norms, once
            checked, counted = (functools.partial(verified, place, level) for level in (Level.STRUCTURE, Level.CONTENT))
            plain, bytes_alone, ours = timed(functools.partial(summed, place, kind), checked, counted)
            yield rate(f"numpy reads and sums {LARGE} dumps of {LARGE_TOKENS} rows, {dtype}", size, "GB/s", plain)
            yield rate("  structure of the same: their checksums", size, "GB/s", bytes_alone)
            yield rate("  content of the same: checksums and numbers", size, "GB/s", ours)
            yield "  ratio", f"{plain.wall / ours.wall:.2f}", f"{plain.processor / ours.processor:.2f}", ">= 0.5"


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


def main() -> None:
    machine = f"{platform.machine()}, {CORES} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{'':<60} {'wall':>18} {'unshared':>18}")
    for part in (structure, content, listing):
        for what, wall, processor, wanted in part():
            print(f"{what:<60} {wall:>18} {processor:>18} {wanted:>10}", flush=True)


if __name__ == "__main__":
    main()
