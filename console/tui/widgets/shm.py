"""Shared memory: what the dumps hold, what others hold, what is left, and when it will be full."""

from __future__ import annotations

from textual.content import Content

from console.text import size
from console.tui import ink
from console.tui.format import gib, until
from console.tui.text import line, plain
from console.tui.widgets.painted import Panel
from remote.wire.telemetry import ShmSnapshot

STEADY = 100_000  # bytes a second that are no trend
SOON = 600.0  # seconds until full that are worth a colour
TIGHT = 0.9  # of the room used, likewise


class Shm(Panel):
    kind = ShmSnapshot

    def title(self) -> str:
        return line(self.picture.shm.path, 30) if self.picture.shm else "/dev/shm"

    def body(self, width: int) -> list[Content]:
        shm = self.picture.shm
        if shm is None:
            return [Content.styled(" waiting for the first look …", ink.MUTED)]
        if shm.problem:
            return [plain(f" {line(shm.problem)}", ink.BAD)]
        room = limit(shm)
        used = Content.assemble(
            (f"{gib(shm.used)}", ink.WARN if room and shm.used / room > TIGHT else ink.PLAIN),
            (f" of {gib(room)} GiB", ink.MUTED),
            (" (cgroup)" if room < shm.size else "", ink.MUTED),
        )
        bar_width = min(max(width - used.cell_length - 4, 4), 40)
        dumps, other = (shm.dumps / room, (shm.used - shm.dumps) / room) if room else (0.0, 0.0)
        bar = ink.split_bar(((dumps, ink.BAR), (other, ink.BAR_OTHER)), bar_width)
        first = Content.assemble(" ", bar, "  ", used)
        legend, trend = self._legend(shm, room), self._trend(shm, room)
        if first.cell_length + trend.cell_length + 3 <= width:
            return [first + "   " + trend, legend]
        return [first, legend, Content(" ") + trend]

    def _legend(self, shm: ShmSnapshot, room: int) -> Content:
        free = max(room - shm.used, 0)
        return Content.assemble(
            (" ■", ink.BAR),
            f" dumps {gib(shm.dumps)}  ",
            ("■", ink.BAR_OTHER),
            f" other {gib(max(shm.used - shm.dumps, 0))}  ",
            ("■", ink.TRACK),
            f" free {gib(free)}",
        )

    def _trend(self, shm: ShmSnapshot, room: int) -> Content:
        rate = self.picture.shm_rate()
        if rate is None:
            return Content.styled("no rate yet", ink.MUTED)
        if abs(rate) < STEADY:
            return Content.styled("steady", ink.MUTED)
        sign = "+" if rate > 0 else "−"
        words = Content.styled(f"{sign}{size(abs(rate))}/s", ink.MUTED)
        if rate < 0:
            return words
        full = max(room - shm.used, 0) / rate
        return Content.assemble(words, ": ", (f"full in {until(full)}", ink.WARN if full < SOON else ink.PLAIN))


def limit(shm: ShmSnapshot) -> int:
    """Bytes that can be held at all: the file system's size, or less where the container's memory ends first."""
    if shm.cgroup_headroom is None:
        return shm.size
    return min(shm.size, shm.cgroup_headroom + shm.used)
