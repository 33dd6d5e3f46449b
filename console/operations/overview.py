"""Everything the main screen shows, taken once."""

from __future__ import annotations

import dataclasses
from typing import Any

from console.operations import calls
from remote.wire.codec import encode
from remote.wire.dumps import DumpsChange
from remote.wire.patch import PatchStatus
from remote.wire.server import ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

NEWEST = 20


@dataclasses.dataclass(frozen=True)
class Overview:
    server: ServerState
    patch: PatchStatus
    gpus: GpuSnapshot
    shm: ShmSnapshot
    dumps: DumpsChange


def take(agent: calls.Agent) -> Overview:
    """Ask the agent for each part in turn."""
    return Overview(
        server=calls.server_state(agent),
        patch=calls.patch_status(agent),
        gpus=calls.gpus(agent),
        shm=calls.shm(agent),
        dumps=calls.dumps(agent, NEWEST),
    )


def as_document(overview: Overview) -> dict[str, Any]:
    document: dict[str, Any] = encode(overview)
    return document
