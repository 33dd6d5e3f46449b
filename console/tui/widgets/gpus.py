"""One cell per GPU: as many in a row as it takes to keep the panel low, and in each as much as fits."""

from __future__ import annotations

from textwrap import wrap

from textual.content import Content

from console.tui import ink
from console.tui.format import age, gib
from console.tui.text import cells, line, plain
from console.tui.widgets.painted import Panel
from remote.wire.telemetry import Gpu, GpuSnapshot, MigDevice

COLUMN_GAP = 3
LEAST_CELL = 16
HOT = 85  # degrees Celsius
SPARK = 12  # cells of history
MOST_HOLDERS = 4  # lines
PART = -1  # the index of a row that is a part of the GPU above it
UNIFIED = "memory: Not Supported"  # NVML's word where the GPU shares the machine's memory

# What a cell of at least so many columns shows; the bar takes what the others leave.
LAYOUTS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (84, ("name", "bar", "memory", "percent", "power", "heat", "spark")),
    (62, ("name", "bar", "memory", "percent", "power", "heat")),
    (42, ("bar", "memory", "percent", "power", "heat")),
    (34, ("bar", "memory", "percent", "heat")),
    (27, ("bar", "memory", "percent")),
    (0, ("bar", "percent")),
)


class Gpus(Panel):
    kind = GpuSnapshot

    def stale(self) -> float | None:
        """Old at once when the driver gives no answer: the agent says how old. That there is none gets no older."""
        seen = self.picture.gpus
        if seen is None or not seen.gpus:
            return self.picture.stale
        return self.picture.age(GpuSnapshot) if seen.age > 0 else super().stale()

    def title(self) -> str:
        return "GPUs"

    def body(self, width: int) -> list[Content]:
        snapshot = self.picture.gpus
        if snapshot is None:
            return [Content.styled(" waiting for the first look …", ink.MUTED)]
        if not snapshot.gpus:
            return self._none(snapshot, width)
        lines = [plain(f" ✗ {line(snapshot.problem)}", ink.BAD)] if snapshot.problem else []
        return [*self._grid(snapshot.gpus, width), *lines, *self._holders(width)]

    def _none(self, snapshot: GpuSnapshot, width: int) -> list[Content]:
        """Why there is none; on a low screen in a line."""
        if self.picture.profile.on_cpu:
            return [Content.styled(" none needed: SGLang computes on the CPU here", ink.MUTED)]
        why = snapshot.problem or "no GPU in this container"
        if self.screen.size.height < 30:
            return [plain(f" {line(why)}", ink.MUTED)]
        return [row for text in (why, snapshot.remedy) for row in _wrapped(text, ink.MUTED, width)]

    def _holders(self, width: int) -> list[Content]:
        """Whose the memory is, when that is a question: as the Proxmox host sees it."""
        found = self.picture.gpu_holders
        if found is None:
            return []
        ago = age(self.picture.clock.monotonic() - self.picture.gpu_holders_seen)
        lines = [row for held in found.held for row in _wrapped(held.line, ink.WARN, width)]
        lines += _wrapped(found.problem, ink.MUTED, width)
        most = MOST_HOLDERS if self.screen.size.height >= 30 else 1
        more = [Content.styled(" more: hsconsole status", ink.MUTED)] if len(lines) > most else []
        seen = Content.styled(f" seen from the Proxmox host, {'now' if ago == 'now' else f'{ago} ago'}:", ink.MUTED)
        return [seen, *lines[:most], *more] if lines else []

    def _grid(self, found: tuple[Gpu, ...], width: int) -> list[Content]:
        gpus = [row for gpu in found for row in (gpu, *map(_part, gpu.mig or ()))]
        lowest = max(self.screen.size.height // 4, 4) if self.is_attached else 9
        columns = -(-len(gpus) // lowest)
        columns = max(1, min(columns, (width + COLUMN_GAP) // (LEAST_CELL + COLUMN_GAP)))
        rows = -(-len(gpus) // columns)
        cell = (width - 2 - COLUMN_GAP * (columns - 1)) // columns
        name_width = min(max(len(short_name(gpu.name)) for gpu in gpus), 16)
        lines = []
        for row in range(rows):
            painted = [self._cell(gpu, cell, name_width) for gpu in gpus[row::rows]]
            lines.append(Content(" ") + Content(" " * COLUMN_GAP).join(painted))
        return lines

    def _cell(self, gpu: Gpu, width: int, name_width: int) -> Content:
        index = Content.styled(f"{gpu.index:>2}" if gpu.index >= 0 else " ↳", ink.MUTED)
        if gpu.problem:
            return cells(Content.assemble(index, " ", plain(f"✗ {line(gpu.problem)}", ink.BAD)), width)
        history = tuple(self.picture.gpu_history.get(gpu.index, ()))[-SPARK:]
        fields = {
            "name": cells(plain(short_name(gpu.name)), name_width),
            "memory": cells(_memory(gpu), 13, right=True),
            "percent": cells(_unit(gpu.utilization, " %", ink.PLAIN), 5, right=True),
            "power": cells(_unit(gpu.power, " W"), 5, right=True),
            "heat": cells(_heat(gpu), 5, right=True),
            "spark": cells(ink.sparkline(history, 100.0), SPARK, right=True),
        }
        wanted = next(names for least, names in LAYOUTS if width >= least)
        left = width - 2 - sum(1 + fields[name].cell_length for name in wanted if name in fields)
        fields["bar"] = _bar(gpu, min(left - 1, 32))
        row = Content(" ").join([index, *(fields[name] for name in wanted)])
        return cells(row, width)


def _wrapped(text: str, style: str, width: int) -> list[Content]:
    rows = wrap(line(text), max(width - 4, 20), subsequent_indent="  ")
    return [plain(f" {row}", style) for row in rows]


def _part(part: MigDevice) -> Gpu:
    """A MIG device as a row below its GPU's, with the profile for a name; it has no figures but of its memory."""
    name = part.name.rpartition("MIG ")[2]
    return Gpu(PART, name, part.memory_used, part.memory_total, processes=part.processes, problem=part.problem)


def short_name(name: str) -> str:
    return line(name, 40).removeprefix("NVIDIA ").removeprefix("GeForce ")


def _memory(gpu: Gpu) -> Content:
    if gpu.memory_used is None or not gpu.memory_total:
        unified = any(why == UNIFIED for why in gpu.absent)
        return Content.styled("not supported" if unified else "no figure", ink.MUTED)
    return Content.assemble(f"{gib(gpu.memory_used)}/{gib(gpu.memory_total)}", (" GiB", ink.MUTED))


def _heat(gpu: Gpu) -> Content:
    hot = gpu.temperature is not None and gpu.temperature >= HOT
    return _unit(gpu.temperature, " °C", ink.WARN if hot else ink.MUTED)


def _bar(gpu: Gpu, width: int) -> Content:
    if gpu.memory_used is None or not gpu.memory_total:
        return Content.styled("·" * width, ink.TRACK)
    return ink.bar(gpu.memory_used / gpu.memory_total, width)


def _unit(value: float | None, unit: str, style: str = ink.MUTED) -> Content:
    return Content.styled("–" if value is None else f"{value:.0f}{unit}", style)
