"""Everything the main screen shows, taken once."""

from __future__ import annotations

import dataclasses

from console import clock
from console.config.profile import Profile
from console.operations import calls, gpuholders
from console.operations.gpuholders import GpuHolders
from remote.wire.dumps import DumpsChange
from remote.wire.patch import PatchStatus
from remote.wire.server import ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot

NEWEST = 20


@dataclasses.dataclass(frozen=True)
class Overview:
    """ages: of server, gpus and shm when all had been asked for, seconds, at most.

    gpu_holders: as the Proxmox host sees them, None where it wasn't asked.
    """

    server: ServerState
    patch: PatchStatus
    gpus: GpuSnapshot
    shm: ShmSnapshot
    dumps: DumpsChange
    gpu_holders: GpuHolders | None
    ages: dict[str, float]


def take(agent: calls.Agent, profile: Profile) -> Overview:
    """Ask the agent for each part in turn, and the Proxmox host, where there is one, who holds the GPUs."""
    asked: dict[str, float] = {}

    def now(part: str) -> calls.Agent:
        asked[part] = clock.now()
        return agent

    taken = Overview(
        server=calls.server_state(now("server")),
        patch=calls.patch_status(agent),
        gpus=(gpus := calls.gpus(now("gpus"))),
        shm=calls.shm(now("shm")),
        dumps=calls.dumps(agent, NEWEST),
        gpu_holders=gpuholders.ask(profile, gpus),
        ages={},
    )
    end = clock.now()
    ages = {part: round(end - began, 1) for part, began in asked.items()}
    return dataclasses.replace(taken, ages={**ages, "gpus": round(ages["gpus"] + gpus.age, 1)})
