"""What the agent knows about the place it runs in."""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A Python and the SGLang it would import. problem: why it can't be used, empty when it can."""

    path: str
    version: str = ""
    sglang_version: Optional[str] = None
    sglang_file: Optional[str] = None
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Hello:
    """The agent's first words. now: the container's clock, seconds since the epoch."""

    version: str
    digest: str
    pid: int
    python: str
    python_version: str
    hostname: str
    user: str
    now: float
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Survey:
    """What `hsconsole init` asks about a container. shm_size, shm_free: of /dev/shm, bytes."""

    hostname: str
    interpreters: tuple[Interpreter, ...]
    gpus: tuple[str, ...]
    gpu_problem: str
    shm_size: int
    shm_free: int
    models: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Pong:
    """now: the container's clock, seconds since the epoch."""

    now: float
