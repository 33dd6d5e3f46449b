"""Who holds the GPUs, as the Proxmox host sees it: a container is shown none, or the host's pids.

Only to be told to the operator: nothing is signalled by what is found here.
"""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Iterator

from console.operations import hostview
from console.operations.hostview import HostProcess, Records
from console.text import harmless

MIB = 1 << 20
UVM = "/dev/nvidia-uvm"  # what computes has it open; what only watches, as NVML does, has not


@dataclasses.dataclass(frozen=True)
class Holder:
    """A process with memory of a GPU. used: bytes, None where that isn't told. process: None when it has ended."""

    pid: int
    used: int | None
    process: HostProcess | None


@dataclasses.dataclass(frozen=True)
class HostGpu:
    """A GPU of the host, by the driver's own id for it. index: nvidia-smi's, None where it was not asked.

    holders: as nvidia-smi lists them. opened_by: computing processes that have it open, whether they use it or not.
    """

    uuid: str
    index: int | None
    holders: tuple[Holder, ...] = ()
    opened_by: tuple[Holder, ...] = ()


@dataclasses.dataclass(frozen=True)
class HostGpus:
    """problem: what nvidia-smi says instead of a list."""

    gpus: tuple[HostGpu, ...]
    problem: str = ""


def look_command(vmid: int, mark: str) -> str:
    return hostview.command("gpus.sh", str(vmid), mark, looks=True)


def parse(output: str, mark: str) -> HostGpus:
    """What gpus.sh printed. Raises Unreadable, with the place, when it is cut or garbled."""
    return hostview.read(output, mark, _facts)


def _facts(records: Records) -> HostGpus:
    processes = {one.pid: one for one in hostview.processes(records, {})}
    said = dict(rest.partition(" ")[::2] for kind, rest in records if kind == "smi")
    indices = {row[1]: int(row[0]) for row in _rows(said.get("gpus", ""), 3) if row[0].isdecimal()}
    holders: dict[str, list[Holder]] = {}
    for uuid, pid, used in _rows(said.get("apps", ""), 3):
        if pid.isdecimal():
            bytes_used = int(used) * MIB if used.isdecimal() else None
            holders.setdefault(uuid, []).append(Holder(int(pid), bytes_used, processes.get(int(pid))))
    minors = dict(_cards(records))
    opened = _opened(records, processes)
    uuids = dict.fromkeys((*indices, *holders, *minors))
    gpus = tuple(
        HostGpu(uuid, indices.get(uuid), tuple(holders.get(uuid, ())), tuple(opened.get(minors.get(uuid, ""), ())))
        for uuid in uuids
    )
    return HostGpus(gpus, "" if indices else _problem(said))


def _problem(said: dict[str, str]) -> str:
    if "gpus" not in said:
        return "the host has no nvidia-smi"
    lines = _text(said["gpus"]).split("\n")
    return f"nvidia-smi on the host says: {harmless(lines[0], 200) or 'nothing'}"


def _rows(packed: str, width: int) -> Iterator[list[str]]:
    for line in _text(packed).splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == width:
            yield cells


def _cards(records: Records) -> Iterator[tuple[str, str]]:
    """Of each GPU that the driver has: its uuid, and its device file."""
    for kind, rest in records:
        text = _text(rest) if kind == "card" else ""
        uuid = re.search(r"^GPU UUID:\s*(\S+)", text, re.MULTILINE)
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        if uuid and minor:
            yield uuid[1], f"/dev/nvidia{minor[1]}"


def _opened(records: Records, processes: dict[int, HostProcess]) -> dict[str, list[Holder]]:
    """By device file, who computes and has it open."""
    pids: dict[str, dict[int, None]] = {}
    for device, path in (rest.split() for kind, rest in records if kind == "open"):
        pids.setdefault(device, {})[int(path.split("/")[2])] = None
    computing = pids.pop(UVM, {})
    return {
        device: [Holder(pid, None, processes.get(pid)) for pid in found if pid in computing]
        for device, found in pids.items()
    }


def _text(packed: str) -> str:
    return base64.b64decode(packed, validate=True).decode("utf-8", "replace")
