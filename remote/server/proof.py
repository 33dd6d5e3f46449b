"""The proof that a server has stopped, in three parts: no process, the port free, GPU memory back."""

from __future__ import annotations

import time

from remote import ports
from remote.processes import Process
from remote.server import find
from remote.server.find import Found
from remote.telemetry import gpus
from remote.wire import amounts
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target
from remote.wire.telemetry import GpuSnapshot

GPU_WAIT = 30.0  # seconds; the driver frees memory some time after the last process ended
GPU_SLACK = 512 << 20  # bytes above the baseline that still count as back


def names(left: list[Process]) -> str:
    return ", ".join(f"pid {process.pid} ({process.name}, state {process.state})" for process in left[:9])


def gone(left: list[Process], target: Target) -> Check:
    """No process of the server is left: none of those known, and none found anew."""
    found = [member.process for member in find.find(target).members if member.why != find.ORPHAN]
    remain = left or found
    if not remain:
        return Check("processes", Verdict.OK, "none of the server's processes is left")
    if any(process.state == "D" for process in remain):
        remedy = "A process in state D waits in the kernel and ends when that does; nothing here can hasten it."
    else:
        remedy = "Plan the stop again."
    return Check("processes", Verdict.BAD, f"left: {names(remain)}", remedy)


def port_free(target: Target) -> Check:
    error = ports.bind_error(target.host, target.port)
    if error is None:
        return Check("port", Verdict.OK, f"{target.host}:{target.port} can be bound")
    return Check("port", Verdict.BAD, f"{target.host}:{target.port}: {error.strerror}", "Look at the port again.")


def gpus_back(found: Found) -> Check:
    """GPU memory as it was before the start, as far as that is known. Whether a process is listed proves nothing."""
    baseline = found.record.gpus if found.record is not None and found.ours else {}
    deadline = time.monotonic() + GPU_WAIT
    seen = gpus.read()
    while _above(seen, baseline) and time.monotonic() < deadline:
        time.sleep(1.0)
        seen = gpus.read()
    if seen.problem:
        return Check("gpu memory", Verdict.UNKNOWN, seen.problem, seen.remedy)
    above = _above(seen, baseline)
    what = ", ".join(f"GPU {index}: {amounts.size(more)}" for index, more in above.items())
    if above and not baseline:
        return Check("gpu memory", Verdict.WARN, f"in use: {what}; how much was before the start is not known")
    if above:
        return Check("gpu memory", Verdict.BAD, f"above what it was before the start: {what}", "See who uses it.")
    unknown = _unknown(seen, baseline)
    if unknown:
        return Check("gpu memory", Verdict.UNKNOWN, f"can't be told: {'; '.join(unknown)}", seen.remedy)
    return Check("gpu memory", Verdict.OK, "as before the start" if baseline else "none in use")


def _unknown(seen: GpuSnapshot, baseline: dict[str, int]) -> list[str]:
    """GPUs whose memory can't be told now, and why."""
    listed = {str(gpu.index) for gpu in seen.gpus}
    dark = [gpu for gpu in seen.gpus if gpu.problem or gpu.memory_used is None]
    why = [f"GPU {gpu.index}: {gpu.problem or '; '.join(gpu.absent)}" for gpu in dark]
    return why + [f"GPU {index}: the driver lists it no more" for index in baseline if index not in listed]


def _above(seen: GpuSnapshot, baseline: dict[str, int]) -> dict[int, int]:
    """Bytes in use beyond the baseline, by the index of each GPU where that is more than slack."""
    used = {gpu.index: gpu.memory_used for gpu in seen.gpus if gpu.memory_used is not None}
    above = {index: bytes_used - baseline.get(str(index), 0) for index, bytes_used in used.items()}
    return {index: more for index, more in above.items() if more > GPU_SLACK}
