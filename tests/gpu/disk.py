"""How fast pinned memory becomes files in /dev/shm: bare writes by eight threads, and the dumper's own writers."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import time
from pathlib import Path

import torch

from remote.dumper import archive, host, writers
from remote.dumper.folder import Folder
from remote.dumper.request import Desk, Origin, Part, Rank, Writing
from remote.dumper.room import Room

ROWS, HIDDEN = 2353, 7168  # the mean prompt
NAMES = ("aux_0", "aux_1", "aux_2", "final")
THREADS = 8


def states() -> dict[str, archive.Tensor]:
    """One request in pinned memory."""
    pin = torch.cuda.is_available()
    made = {name: torch.randn(ROWS, HIDDEN, dtype=torch.bfloat16) for name in NAMES}
    made["input_ids"] = torch.arange(ROWS)
    return {name: host.view(name, _keep(tensor.pin_memory() if pin else tensor)) for name, tensor in made.items()}


_kept: list[torch.Tensor] = []  # a view does not keep its tensor alive


def _keep(tensor: torch.Tensor) -> torch.Tensor:
    _kept.append(tensor)
    return tensor


def bare(folder: Path, requests: int, tensors: dict[str, archive.Tensor]) -> float:
    """GB/s of the same bytes, written without framing, checksum or metadata: the ceiling."""

    def write(number: int) -> None:
        for name, tensor in tensors.items():
            file = os.open(folder / f"{number}.{name}", os.O_WRONLY | os.O_CREAT)
            os.pwrite(file, tensor.data, 0)
            os.close(file)

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(requests)))
    return _rate(tensors, requests, start)


def dumped(folder: Path, requests: int, tensors: dict[str, archive.Tensor], count: int = THREADS) -> float:
    """GB/s through the dumper's writers, from the first request put to the last published."""
    origin = Origin("bench", os.getpid(), (3, 31, 59), "", "", "")
    desk = Desk(Folder(str(folder)), Room(str(folder)), origin)
    desk.folder.prepare()
    threads = writers.Writers(count)
    start = time.perf_counter()
    for number in range(requests):
        writing, line = Writing(desk, f"r{number}", Rank(0, 1, HIDDEN)), writers.Line()
        part = Part(ROWS, 0, tensors, lambda: None)
        threads.put(line, lambda writing=writing, part=part: writing.add(part))  # type: ignore[misc]
        threads.put(line, lambda writing=writing: writing.finish())  # type: ignore[misc]
    assert threads.drain(120)
    assert len(list(folder.glob("req_*/done"))) == requests
    return _rate(tensors, requests, start)


def _by_default(folder: Path, requests: int, tensors: dict[str, archive.Tensor]) -> float:
    return dumped(folder, requests, tensors, 0)


def measure(rounds: int, requests: int, folder: Path = Path("/dev/shm/hs_bench_disk")) -> dict[str, list[float]]:
    """Bare writes and the dumper's in turn; the first round also touches the memory for the first time."""
    tensors = states()
    ways = {"bare, 8 threads": bare, "dumped, 8 threads": dumped, "dumped, as many as by default": _by_default}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, write in ways.items():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            found[name].append(round(write(folder, requests, tensors), 2))
    shutil.rmtree(folder)
    return found


def _rate(tensors: dict[str, archive.Tensor], requests: int, start: float) -> float:
    return sum(tensor.data.nbytes for tensor in tensors.values()) * requests / (time.perf_counter() - start) / 1e9
