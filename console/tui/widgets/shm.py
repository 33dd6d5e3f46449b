"""Shared memory: what the dumps hold, what others hold, what is left, what dead processes left, when it is full."""

from __future__ import annotations

from textual.content import Content

from console.actions import BY_ID
from console.text import size
from console.tui import ink
from console.tui.format import gib, until
from console.tui.text import line, plain
from console.tui.widgets.painted import Panel
from remote.wire.telemetry import ShmSnapshot

STEADY = 100_000  # bytes a second that are no trend
SOON = 600.0  # seconds until full that are worth a colour
TIGHT = 0.9  # of the room used, likewise
LEAST_TOLD = 5 << 20  # bytes of an owner; less reads as 0.00
LEAST_STALE = 1 << 20  # bytes that are worth a line
DOUBTED = 0.001  # of the room, likewise where nothing can be done from here
KEY = BY_ID["shm.clean"].key


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
        legend, trend = self._legend(shm, room), _trend(shm, room)
        if first.cell_length + trend.cell_length + 3 <= width:
            lines = [first + "   " + trend, legend]
        else:
            lines = [first, legend, Content(" ") + trend]
        return [*lines, *_owners(shm), *_left_over(shm, room)]

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


def _trend(shm: ShmSnapshot, room: int) -> Content:
    """Both ways by itself: what a consumer takes says nothing of how fast the dumps come."""
    if shm.filling is None or shm.emptying is None:
        return Content.styled("no rate yet", ink.MUTED)
    flows = [f"{sign}{size(rate)}/s" for sign, rate in (("+", shm.filling), ("−", shm.emptying)) if rate >= STEADY]
    if not flows:
        return Content.styled("steady", ink.MUTED)
    words = Content.styled(" ".join(flows), ink.MUTED)
    rate = shm.filling - shm.emptying
    if rate < STEADY:
        return words
    full = max(room - shm.used, 0) / rate
    return Content.assemble(words, ": ", (f"full in {until(full)}", ink.WARN if full < SOON else ink.PLAIN))


def _owners(shm: ShmSnapshot) -> list[Content]:
    """Whose the other bytes are, as far as that is known and worth a word."""
    told = [f"{line(owner.name, 20)} {gib(owner.bytes)}" for owner in shm.owners if owner.bytes >= LEAST_TOLD]
    return [Content.styled("   other: " + " · ".join(told), ink.MUTED)] if told else []


def _left_over(shm: ShmSnapshot, room: int) -> list[Content]:
    """What dead processes left, with its key; or that there may be some."""
    if shm.stale >= LEAST_STALE:
        words = f" ! {size(shm.stale)} left by dead processes: "
        return [Content.assemble((words, ink.WARN), (KEY, f"bold {ink.KEY}"))]
    if shm.unsure > max(room * DOUBTED, LEAST_STALE):
        words = f" ? {size(shm.unsure)} maybe left by dead processes: {line(shm.doubt, 200)}"
        return [Content.styled(words, ink.MUTED)]
    return []


def limit(shm: ShmSnapshot) -> int:
    """Bytes that can be held at all: the file system's size, or less where the container's memory ends first."""
    if shm.cgroup_headroom is None:
        return shm.size
    return min(shm.size, shm.cgroup_headroom + shm.used)
