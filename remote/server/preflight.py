"""What stands between now and a good start, on one page. A wrong start costs a load of minutes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Optional

from remote import interpreter, ports
from remote.canary import convention
from remote.patch import choice
from remote.patch import operations as patch
from remote.server import ask, command, dumpfolder, find, model, release, state
from remote.server.command import CommandLine
from remote.server.conflicts import Installed
from remote.server.find import Found
from remote.telemetry import gpus, shm
from remote.wire import amounts
from remote.wire.errors import OperatorError
from remote.wire.host import Interpreter
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.plan import Check, Verdict
from remote.wire.server import Preflight
from remote.wire.target import Target
from remote.wire.telemetry import Gpu, MigDevice

REQUEST_TOKENS = 8192  # the longest request that is usual
FEW_REQUESTS = 4
NCCL_RESERVE = 512 << 20  # bytes of /dev/shm that ranks need to talk to each other
BUSY_BYTES = 1 << 30  # a GPU with more than this in use is not free; the driver alone takes less
STOP_FIRST = "Stop it first: hsconsole server stop."


@dataclasses.dataclass(frozen=True)
class Examination:
    """A preflight with what it found on the way, for the start that may follow."""

    report: Preflight
    line: CommandLine
    python: Interpreter
    patch: Optional[PatchStatus]
    found: Found
    health_path: str


def examine(target: Target) -> Preflight:
    """Every check, good or bad. Changes nothing; takes a second or two."""
    return look(target).report


def look(target: Target) -> Examination:
    python = interpreter.inspect(target.python, target.env)
    package = Path(python.sglang_file).parent if python.sglang_file else None
    known = release.known_flags(package) if package else None
    line = command.command_line(target, known, _installed(target, python.sglang_version, package))
    found = find.settled(target)
    status, patched = _patch(target, python)
    checks = [_interpreter(python), patched, _flags(line, known is not None), *_refused(target, line)]
    checks += [_fusion()] if command.fuses_by_itself(line.known, target.tp) else []
    checks += [_health(package)] if package else []
    checks += [_running(found, target), _port(found, target), *_model(target, line)]
    checks += [_room(target, line), _gpus(target, line, found)]
    convention_check = convention.check(python.sglang_version, target.eagle_layer_ids, target.layers)
    checks += [odd for odd in (convention_check, dumpfolder.check(target.dump_dir)) if odd]
    path = ask.HEALTH if package is None or release.health_can_be_quiet(package) else ask.NOT_HEALTH_OLD
    return Examination(Preflight(tuple(checks)), line, python, status, found, path)


def _installed(target: Target, version: Optional[str], package: Optional[Path]) -> Installed:
    if package is None:
        return Installed(version)
    try:
        runs = choice.of_model(target, str(package))
    except OperatorError:
        runs = None
    sharing = command.ranks_of_a_request(target)
    return Installed(version, runs, release.tells_prompt_lengths(package), sharing)


def _interpreter(python: Interpreter) -> Check:
    if not python.problem:
        return Check("interpreter", Verdict.OK, f"{python.path}: sglang {python.sglang_version}, {python.sglang_file}")
    others = interpreter.with_sglang()
    remedy = "Set container.python to one that has sglang"
    remedy += f", such as {others[0].path} ({others[0].sglang_version})." if others else "; none was found here."
    return Check("interpreter", Verdict.BAD, f"{python.path} {python.problem}", remedy)


def _patch(target: Target, python: Interpreter) -> tuple[Optional[PatchStatus], Check]:
    if python.problem:
        return None, Check("patch", Verdict.UNKNOWN, "nothing to look at without sglang")
    try:
        status = patch.status(target)
    except OperatorError as error:
        return None, Check("patch", Verdict.BAD, error.what, error.remedy)
    if status.state is PatchState.APPLIED:
        return status, Check("patch", Verdict.OK, status.summary)
    verdict = Verdict.WARN if status.state is PatchState.FOREIGN else Verdict.BAD
    remedy = "Apply it first, or nothing is dumped: hsconsole patch apply."
    if not status.model_file and status.depths:  # there is nothing to apply it to
        remedy = status.depths[0].remedy
    return status, Check("patch", verdict, status.summary, remedy)


def _flags(line: CommandLine, read: bool) -> Check:
    if line.unknown or line.strays:
        return Check("flags", Verdict.BAD, _unknown(line), "Correct server.flags in the profile.")
    if not read:
        return Check("flags", Verdict.UNKNOWN, "the release's own flags can't be read, so none was checked")
    said = "; ".join(f"{before} is here {after}" for before, after in line.translated)
    return Check("flags", Verdict.OK, said or "this release knows them all")


def _unknown(line: CommandLine) -> str:
    parts = [f"{name} is no flag of this release" + _meant(name, line) for name in line.unknown]
    return "; ".join(parts + [f"{word!r} belongs to no flag" for word in line.strays])


def _meant(name: str, line: CommandLine) -> str:
    close = release.close_matches(name, line.known)
    return f" (close: {', '.join(close)})" if close else ""


def _refused(target: Target, line: CommandLine) -> list[Check]:
    """Flags and variables that would make dumps wrong or missing."""
    remedy = "Take it out of server.flags in the profile."
    checks = [Check("dumping", Verdict.BAD, f"refused: {flag} {why}", remedy) for flag, why in line.conflicts]
    for name in command.env_conflicts(target):
        found = f"refused: {name} in server.env says otherwise than dumping needs"
        checks.append(Check("dumping", Verdict.BAD, found, "Take it out of server.env in the profile."))
    return checks or [Check("dumping", Verdict.OK, "added: " + " ".join(map(str, line.added)) if line.added else "set")]


def _fusion() -> Check:
    found = "this release may leave all-reduces to the next layer (fused, on H100 and newer): the dumper completes them"
    return Check("fusion", Verdict.OK, found)


def _health(package: Path) -> Check:
    if release.health_can_be_quiet(package):
        return Check("health", Verdict.OK, "GET /health makes no dumps")
    found = "on this release each GET /health is a request of one token, and a dump"
    return Check("health", Verdict.WARN, found, "hsconsole asks /get_model_info instead; let nothing else ask /health.")


def _running(found: Found, target: Target) -> Check:
    if found.parent is None and not found.members:
        return Check("server", Verdict.OK, "none runs")
    if found.parent is None:
        pids = ", ".join(str(member.process.pid) for member in found.members)
        return Check("server", Verdict.BAD, f"processes of a dead server are left: pid {pids}", STOP_FIRST)
    whose = "started by hsconsole" if found.ours else "not started by hsconsole"
    return Check("server", Verdict.BAD, f"one runs on port {target.port}: pid {found.parent.pid}, {whose}", STOP_FIRST)


def _port(found: Found, target: Target) -> Check:
    place = f"{target.host}:{target.port}"
    error = ports.bind_error(target.host, target.port)
    if error is None:
        return Check("port", Verdict.OK, f"{place} can be bound")
    holders = ports.holders(target.port)
    if not holders and ports.lingering(target.port):
        what = f"{place}: nobody listens, but ended connections keep the port"
        return Check("port", Verdict.BAD, what, "Wait a minute: the kernel then lets it go.")
    if not holders:
        return Check("port", Verdict.BAD, f"{place}: {error.strerror or error}", "Correct server.host or server.port.")
    holder = holders[0]
    age = f", {amounts.age(holder.process.age)} old" if holder.process else ""
    own = holder.process is not None and holder.process.pid in found.pids
    whose = "this server's" if own else "not ours"
    remedy = STOP_FIRST if own else "End that process, or set another server.port."
    return Check("port", Verdict.BAD, f"{place} is held by {state.describe(holder)}{age}; {whose}", remedy)


def _value(line: CommandLine, name: str) -> Optional[str]:
    return next((flag.values[0] for flag in reversed(line.flags) if flag.name == name and flag.values), None)


def _model(target: Target, line: CommandLine) -> list[Check]:
    checks = [model.check(target.model_path, target.layers)]
    if _value(line, "--load-format") == "dummy":
        return [*checks, Check("weights", Verdict.WARN, "--load-format dummy: random weights")]
    if os.path.isdir(target.model_path):
        checks.append(model.check_weights(target.model_path))
    return checks


def _room(target: Target, line: CommandLine) -> Check:
    seen = shm.read(target.dump_dir)
    if seen.problem:
        return Check("room", Verdict.BAD, seen.problem, "Correct dump.folder in the profile.")
    free = shm.room(seen) - (NCCL_RESERVE if target.tp > 1 else 0)
    bound = "free" if free >= seen.free or seen.cgroup_headroom is None else "left of the memory limit"
    found = f"{target.dump_dir}: {amounts.size(max(0, free))} {bound}"
    if seen.stale:
        found += f" ({amounts.size(seen.stale)} more are held by {seen.stale_files} segments of dead processes)"
    config = model.config(target.model_path)
    dtype = _value(line, "--dtype") or ""
    each = model.request_bytes(config, REQUEST_TOKENS, len(target.layers), dtype) if config else None
    if not each:
        return Check("room", Verdict.UNKNOWN, found + "; what a request takes is not known")
    fit = max(0, free) // each
    found += f", room for {fit} requests of {REQUEST_TOKENS} tokens ({each / 1e6:.0f} MB each)"
    if fit >= FEW_REQUESTS:
        return Check("room", Verdict.OK, found)
    remedy = "Remove dumps that are done with, or give the container more memory and a larger /dev/shm."
    if seen.stale:
        remedy = f"hsconsole shm clean removes what dead processes left. {remedy}"
    return Check("room", Verdict.WARN if fit else Verdict.BAD, found, remedy)


def _gpus(target: Target, line: CommandLine, found: Found) -> Check:
    if _value(line, "--device") == "cpu":
        return Check("gpus", Verdict.OK, "not needed: --device cpu")
    seen = gpus.read()
    if seen.problem:
        return Check("gpus", Verdict.WARN, seen.problem, seen.remedy)
    good = [gpu for gpu in seen.gpus if not gpu.problem]
    odd = [f"GPU {gpu.index}: {gpu.problem}" for gpu in seen.gpus if gpu.problem]
    if len(good) < target.tp:
        what = "; ".join([f"{len(good)} GPUs for tp {target.tp}", *odd])
        return Check("gpus", Verdict.BAD, what, seen.remedy or "Lower server.tp, or bring the GPUs back.")
    busy = [gpu for gpu in good if (gpu.memory_used or 0) > BUSY_BYTES]
    unknown = [gpu for gpu in good if gpu.memory_used is None]
    free = len(good) - len(busy) - len(unknown)
    if busy and not found.members:
        verdict = Verdict.WARN if free >= target.tp else Verdict.BAD
        what = f"in use by others: {', '.join(map(_used, busy))}"
        return Check("gpus", verdict, what, "End what uses them, or choose others with CUDA_VISIBLE_DEVICES.")
    odd += [f"in use by the server, or by what is left of one: {', '.join(map(_used, busy))}"] if busy else []
    odd += [_split(gpu.mig, gpu.index) for gpu in good if gpu.mig is not None]
    odd += [f"GPU {gpu.index}: memory in use is not known ({'; '.join(gpu.absent)})" for gpu in unknown]
    return Check("gpus", Verdict.WARN if odd else Verdict.OK, "; ".join([f"{free} free", *odd]), seen.remedy)


def _used(gpu: Gpu) -> str:
    whose = ", no process of it is shown here" if gpu.processes is None else ""
    return f"GPU {gpu.index} ({amounts.size(gpu.memory_used or 0)}{whose})"


def _split(devices: tuple[MigDevice, ...], index: int) -> str:
    return f"GPU {index}: MIG splits it into {len(devices)}; a server sees such a part, never the whole"
