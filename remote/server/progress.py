"""What SGLang's log says of a start and of the work done: stages with time left, throughput, queues."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterable
from typing import Optional

from remote.wire.server import LoadProgress

# Without a part for the label, and bounded throughout: lines are as long, and as odd, as whoever wrote them likes.
BAR = re.compile(
    r"(?<=\s)(?P<percent>\d{1,3})%[^\[]{0,200}?(?P<done>\d{1,9})/(?P<total>\d{1,9})\s{0,3}"
    r"\[(?P<spent>[\d:]{1,20})<(?P<left>[\d:]{1,20}|\?)"
)
LABEL_ENDS = re.compile(r"[|%\[\]]")
WEIGHTS = "loading weights"
# Part of a bar's label: the stage. Other bars go by their own label.
LABELS = (
    ("checkpoint shards", WEIGHTS),
    ("loading shards", WEIGHTS),
    ("Capturing", "capturing graphs"),
    ("warmup", "compiling kernels"),
    ("DeepGEMM", "compiling kernels"),
)
# Part of a line: the stage that begins with it.
STAGES = (
    ("server_args=", "starting its processes"),
    ("Init parallel begin", "joining the ranks"),
    ("Init torch distributed begin", "joining the ranks"),
    ("Load weight begin", WEIGHTS),
    ("Load weight end", "weights loaded, allocating the KV cache"),
    ("KV Cache is allocated", "allocating the KV cache"),
    ("Memory pool end", "preparing the first pass"),
    ("max_total_num_tokens=", "starting the HTTP server"),
    ("Uvicorn running on", "warming up"),
    ("The server is fired up", "ready"),
)
READY = "The server is fired up and ready to roll!"
STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
PREFILL = re.compile(r"Prefill batch.*?#new-token: (\d+).*?input throughput \(token/s\): (\d+(?:\.\d+)?)")
QUEUES = re.compile(r"(?:Prefill|Decode) batch.*?#running-req: (\d+).*?#queue-req: (\d+)")

BATCH = re.compile(r"(?:Prefill batch.*?#new-token: (\d{1,12})|Decode batch)")
BETWEEN_LOGS = 5.0  # seconds; decoding is logged every 40 steps
SLOW = 1000.0  # tokens of a prompt per second; what is slower hangs


@dataclasses.dataclass(frozen=True)
class Throughput:
    """The last prefill's tokens per second, and when it was logged (seconds since the epoch)."""

    tokens_per_s: float
    at: Optional[float]


def stamp(line: str) -> Optional[float]:
    """When a line was logged. SGLang writes local time of its machine, to the second."""
    match = STAMP.match(line)
    try:
        return time.mktime(time.strptime(match.group(1), "%Y-%m-%d %H:%M:%S")) if match else None
    except (ValueError, OverflowError):  # no such day
        return None


def load(lines: Iterable[str]) -> LoadProgress:
    """How far a start is, by the last line that tells."""
    for line in reversed(list(lines)):
        bar = BAR.search(line)
        if bar:
            return _bar(bar)
        for part, stage in STAGES:
            if part in line:
                return LoadProgress(stage)
    return LoadProgress("importing SGLang")


def _bar(match: re.Match[str]) -> LoadProgress:
    done, total = int(match["done"]), int(match["total"])
    label = LABEL_ENDS.split(match.string[: match.start()])[-1].strip().rstrip(":")
    stage = next((stage for part, stage in LABELS if part.lower() in label.lower()), label[:60])
    return LoadProgress(stage, float(match["percent"]), done, total, _left(match["left"], match["spent"], done, total))


def _left(left: str, spent: str, done: int, total: int) -> Optional[float]:
    """tqdm's own estimate; by the average so far where it has none."""
    if left != "?":
        return _seconds(left)
    return _seconds(spent) / done * (total - done) if done else None


def _seconds(clock: str) -> float:
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return total


def is_ready(lines: Iterable[str]) -> bool:
    return any(READY in line for line in lines)


def prefill(lines: Iterable[str]) -> Optional[Throughput]:
    """The last prefill's throughput as SGLang logs it."""
    for line in reversed(list(lines)):
        match = PREFILL.search(line)
        if match:
            return Throughput(float(match.group(2)), stamp(line))
    return None


def queues(lines: Iterable[str]) -> Optional[tuple[int, int]]:
    """Running and queued requests by the last batch that was logged."""
    for line in reversed(list(lines)):
        match = QUEUES.search(line)
        if match:
            return int(match.group(1)), int(match.group(2))
    return None


def busy_until(lines: Iterable[str]) -> float:
    """Until when the last pass that was logged may take, seconds since the epoch; 0 when none was.

    A prefill is logged before it begins up to 0.5.2, and behind it from 0.5.9 on: then one that runs is not seen.
    A pass over one token may be that of who asks, so it tells nothing.
    """
    ends = [0.0]
    for line in lines:
        batch = BATCH.search(line)
        tokens = int(batch.group(1) or 0) if batch else 1
        if tokens != 1:
            ends.append((stamp(line) or 0.0) + BETWEEN_LOGS + tokens / SLOW)
    return max(ends)


def load_seconds(lines: Iterable[str], started: float) -> Optional[float]:
    """How long the start took, by the line that says ready."""
    for line in lines:
        if READY in line:
            at = stamp(line)
            return None if at is None else max(0.0, at - started)
    return None
