"""The container's GPUs: by NVML, else by nvidia-smi; bounded, because a driver in trouble may never answer."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any, Callable, Optional, TypeVar

from remote.telemetry import nvml, smi
from remote.telemetry import watch as watching
from remote.telemetry.nvml import NoLibrary
from remote.wire.telemetry import Gpu, GpuSnapshot

T = TypeVar("T")

PATIENCE = 5.0  # seconds for one look
PAUSE, NO_LIBRARY_PAUSE = 1.0, 60.0  # seconds between two looks

NO_LIBRARY = "There is no NVIDIA library here"
NO_GPU = "The driver lists no GPU."
NO_ANSWER = "The NVIDIA driver gives no answer."
# Part of NVML's own message, or of ours: what to do about it.
REMEDIES = (
    (
        "version mismatch",
        "The driver was updated under a running kernel module: reboot the host, or reload the module. In a container, "
        "its driver libraries must be of the host's version.",
    ),
    ("Driver Not Loaded", "Load the NVIDIA driver on the host, and pass its devices into the container."),
    ("Unknown Error", "Look in the host's dmesg for Xid errors; a lost GPU comes back with a reset or a reboot."),
    ("is lost", "Look in the host's dmesg for Xid errors; a lost GPU comes back with a reboot of the host."),
    ("requires restart", "Reset the GPU on the host, or reboot it."),
    ("lists it no more", "Look in the host's dmesg for Xid errors; a lost GPU comes back with a reboot of the host."),
    ("Insufficient Permissions", "Allow the container the devices /dev/nvidia*."),
    (NO_ANSWER, "Look in the host's dmesg for Xid errors and hung tasks; only a reboot may end a call that hangs."),
    ("has no pynvml", "If there are GPUs: install nvidia-ml-py into that Python (SGLang's own environments have it)."),
    ("wrong ELF class", "Bring in the driver's library for this architecture, of the host driver's version."),
    ("cannot open shared object", "If there are GPUs: bring the host driver's libraries, same version, in here."),
)

_turn = threading.Lock()  # held by the look that is under way, for as long as it takes
_watchers: set[object] = set()


def read() -> GpuSnapshot:
    """All GPUs now. What can't be read is said: of one GPU in its `problem`, of all in the snapshot's.

    Takes at most twice PATIENCE, whatever the driver does.
    """
    return _in_turn(_look) or _none(NO_ANSWER)


def watch(emit: Callable[[Any], None], cancelled: threading.Event) -> None:
    """Send the GPUs whenever a value changes, looking once a second; where there is no library, once a minute.

    While the driver gives no answer the last values are sent, with their age. A GPU that was there and isn't any more
    stays, with that said.
    """
    past = _Past()
    _watchers.add(past)
    try:
        watching.changes(lambda: past.beside(_in_turn(_look)), emit, cancelled, pause=_pause, essence=_essence)
    finally:
        _watchers.discard(past)
        if not _watchers:
            _in_turn(nvml.close)


def _pause(seen: GpuSnapshot) -> float:
    return NO_LIBRARY_PAUSE if seen.problem.startswith(NO_LIBRARY) else PAUSE


def _essence(seen: GpuSnapshot) -> Any:
    """What counts as a change: not the clock, and not a watt more or less, which an idle GPU always has."""
    gpus = [dataclasses.replace(gpu, power=None if gpu.power is None else gpu.power // 5) for gpu in seen.gpus]
    return gpus, seen.problem, seen.note


def _in_turn(ask: Callable[[], T]) -> Optional[T]:
    """What `ask` returns, asked in a thread of its own; None when it, or one before it, does not end in time."""
    if not _turn.acquire(timeout=PATIENCE):
        return None
    answers: list[T] = []
    done = threading.Event()

    def work() -> None:
        try:
            answers.append(ask())
        finally:
            _turn.release()
            done.set()

    try:
        threading.Thread(target=work, name="gpus", daemon=True).start()
    except RuntimeError:  # the container has no thread left: asked in this one, for as long as it takes
        work()
    done.wait(PATIENCE)
    return answers[0] if answers else None


def _look() -> GpuSnapshot:
    try:
        seen = nvml.look(keep=bool(_watchers))
    except NoLibrary as error:
        return _by_command(str(error))
    except Exception as error:
        return _none(f"NVML: {error}")
    return _with_remedy(seen) if seen.gpus else _none(NO_GPU)


def _by_command(why: str) -> GpuSnapshot:
    seen = smi.look()
    if seen is None:
        return _none(f"{NO_LIBRARY}: {why}, and there is no nvidia-smi.")
    return _with_remedy(dataclasses.replace(seen, note=f"By nvidia-smi, because {why}."))


def _none(problem: str) -> GpuSnapshot:
    return _with_remedy(GpuSnapshot(time.time(), problem=problem))


def _with_remedy(seen: GpuSnapshot) -> GpuSnapshot:
    problems = [seen.problem, *(gpu.problem for gpu in seen.gpus)]
    said = " ".join(filter(None, problems)).lower()
    remedy = next((remedy for part, remedy in REMEDIES if part.lower() in said), "")
    return dataclasses.replace(seen, remedy=remedy)


class _Past:
    """What a watcher has seen, to set beside what it sees now."""

    def __init__(self) -> None:
        self._last = GpuSnapshot(time.time())
        self._taken = time.monotonic()
        self._known: dict[str, Gpu] = {}

    def beside(self, seen: Optional[GpuSnapshot]) -> GpuSnapshot:
        """`seen`, with the GPUs that have gone since; when there is no answer, the last one with its age."""
        if seen is None:
            age = round(time.monotonic() - self._taken, 1)
            return _with_remedy(dataclasses.replace(self._last, problem=NO_ANSWER, age=age))
        if seen.gpus:
            seen = self._with_gone(seen)
        self._last, self._taken = seen, time.monotonic()
        return seen

    def _with_gone(self, seen: GpuSnapshot) -> GpuSnapshot:
        here = {gpu.uuid for gpu in seen.gpus}
        unnamed = {gpu.index for gpu in seen.gpus if not gpu.uuid}  # no handle for it: said already
        gone = tuple(
            Gpu(gpu.index, gpu.name, uuid=uuid, problem=f"was GPU {gpu.index}; the driver lists it no more")
            for uuid, gpu in self._known.items()
            if uuid not in here and gpu.index not in unnamed
        )
        self._known.update({gpu.uuid: gpu for gpu in seen.gpus if gpu.uuid and not gpu.problem})
        return _with_remedy(dataclasses.replace(seen, gpus=seen.gpus + gone)) if gone else seen
