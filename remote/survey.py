"""What a container has, for `hsconsole init`: Pythons with SGLang, GPUs, shared memory, models."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

from remote import interpreter, processes
from remote.server import model
from remote.telemetry import gpus, shm
from remote.wire.host import Interpreter, Survey

SHM = "/dev/shm"
MODEL_PLACES = ("~/models", "~/.cache/huggingface/hub", "~", "/models", "/data", "/mnt", "/srv", "/opt", "/workspace")
MODEL_SECONDS = 3.0  # for the whole search
MODEL_DEPTH = 4  # folders below a place: hub/models--org--name/snapshots/<revision>
MOST_MODELS = 50
PASSED_BY = ("site-packages", "node_modules", "proc", "sys", "dev")


def survey(pythons: tuple[str, ...] = ()) -> Survey:
    """Look around; bounded to some seconds. pythons: asked first, and named even where they have no sglang."""
    found = gpus.read()
    room = shm.read(SHM)
    return Survey(
        hostname=socket.gethostname(),
        interpreters=_interpreters(pythons),
        gpus=tuple(f"{gpu.name or 'GPU'}{f' ({gpu.problem})' if gpu.problem else ''}" for gpu in found.gpus),
        gpu_problem=found.problem,
        shm_size=room.size,
        shm_free=shm.room(room),
        models=tuple(_models()),
    )


def _interpreters(pythons: tuple[str, ...]) -> tuple[Interpreter, ...]:
    asked = [interpreter.inspect(path) for path in pythons]
    known = {found.path for found in asked}
    return (*asked, *(found for found in interpreter.with_sglang() if found.path not in known))


def _models() -> Iterator[str]:
    """Folders with a config.json that names an architecture: those of running servers, then the usual places."""
    deadline = time.monotonic() + MODEL_SECONDS
    seen: set[str] = set()
    for path in _candidates(deadline):
        real = os.path.realpath(path)
        if real not in seen and _is_model(path):
            seen.add(real)
            yield path
        if len(seen) >= MOST_MODELS or time.monotonic() > deadline:
            return


def _candidates(deadline: float) -> Iterator[str]:
    for process in processes.table().values():
        path = processes.flag_value(process, "--model-path", "--model") if processes.is_launcher(process) else None
        if path and os.path.isabs(path):
            yield path
    for place in MODEL_PLACES:
        yield from _folders(os.path.expanduser(place), MODEL_DEPTH, deadline)


def _folders(folder: str, depth: int, deadline: float) -> Iterator[str]:
    """`folder` and what is below it, not through links, hidden folders only where they were named."""
    if time.monotonic() > deadline:
        return
    yield folder
    try:
        with os.scandir(folder) as entries:
            inner = sorted(
                entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and _may_enter(entry.name)
            )
    except OSError:
        return
    for path in inner if depth else ():
        yield from _folders(path, depth - 1, deadline)


def _may_enter(name: str) -> bool:
    return not name.startswith(".") and name not in PASSED_BY


def _is_model(path: str) -> bool:
    found = model.config(path)
    return found is not None and bool(found.architectures)
