"""The server: its load while it loads, its work while it is ready, its trouble when it has some."""

from __future__ import annotations

from textual.content import Content

from console.actions import BY_ID
from console.operations.verdicts import NAMES
from console.tui import ink
from console.tui.format import age, clock, count, short
from console.tui.text import line, plain
from console.tui.widgets.painted import Panel
from remote.wire.plan import Verdict
from remote.wire.server import LoadProgress, Phase, ProcessInfo, ServerState

SEPARATOR = Content.styled(" · ", ink.MUTED)
BAR_MOST = 60
MOST_PROCESSES = 4
RECENT = 30.0  # seconds for which the last prefill's rate stands for the present


class Server(Panel):
    kind = ServerState

    def title(self) -> str:
        return "Server"

    def body(self, width: int) -> list[Content]:
        server = self.picture.server
        if server is None:
            return [Content.styled(" waiting for the first look …", ink.MUTED)]
        if server.phase in (Phase.LOADING, Phase.STARTING):
            lines = [self._load(server, width)]
        elif server.phase in (Phase.READY, Phase.UNHEALTHY):
            lines = self._at_work(server, width)
        else:
            lines = [self._rest(server)]
            lines += [Content.styled(" → ", ink.MUTED) + line(server.remedy, 300)] if server.remedy else []
        lines += [_process(process) for process in self._shown_processes(server)]
        if self.screen.size.height >= 30:
            lines.append(self._identity(server))
        return lines

    def _load(self, server: ServerState, width: int) -> Content:
        load = server.load or LoadProgress(server.detail or server.phase.value)
        words = Content.assemble(" ", line(load.stage, 40))
        if load.done is not None and load.total:
            words += Content.assemble(" ", f"{load.done}/{load.total}")
        tail = Content()
        if load.left is not None:
            left = max(load.left - self.picture.server_elapsed(), 0.0)
            tail = Content.styled(f"  {clock(left)} left", ink.MUTED)
        if load.percent is None:
            return words + tail
        percent = f"  {load.percent:3.0f} %  "
        room = width - words.cell_length - len(percent) - tail.cell_length - 1
        return Content.assemble(words, percent, ink.bar(load.percent / 100, min(max(room, 4), BAR_MOST)), tail)

    def _at_work(self, server: ServerState, width: int) -> list[Content]:
        """The canary's verdict beside the work where there is room, else below it: it is never cut."""
        work, judged = self._work(server), self._judged(server)
        if server.patch_loaded is None:
            return [work]  # nothing is dumped, so there is nothing to prove
        beside = work + SEPARATOR + judged
        return [beside] if beside.cell_length <= width else [work, Content(" ") + judged]

    def _judged(self, server: ServerState) -> Content:
        head = Content.styled("canary ", ink.MUTED)
        run = self.picture.proving
        if run is not None:
            waits = "waits for the first answer, while kernels compile" if not run.steps else "under way"
            waits = "waits for the link" if run.wait.waiting else waits
            since = clock(max(self.picture.clock.monotonic() - run.started, 0.0))
            return head + Content.styled(f"{waits}, {since}", ink.KEY)
        if server.canary is None:
            key = "" if self.picture.profile.read_only else f": {BY_ID['canary'].key}"
            return Content.styled(f"no canary since this start{key}", ink.WARN)
        ago = age(self.picture.since(server.canary.at))
        style = {Verdict.OK: ink.GOOD, Verdict.BAD: f"bold {ink.BAD}"}.get(server.canary.verdict, ink.WARN)
        when = "just now" if ago == "now" else f"{ago} ago"
        return head + Content.styled(NAMES[server.canary.verdict], style) + Content.styled(f", {when}", ink.MUTED)

    def _work(self, server: ServerState) -> Content:
        parts = []
        if server.phase is Phase.UNHEALTHY:
            parts.append(plain(server.detail or "unhealthy", ink.BAD, 200))
        if server.prefill_tokens_per_s is not None:
            parts.append(_pair("prefill", f"{short(server.prefill_tokens_per_s)} tok/s") + self._prefilled(server))
        if server.running is not None:
            parts.append(_pair("running", count(server.running)))
        if server.queued is not None:
            parts.append(_pair("queued", count(server.queued)))
        parts.append(_health(server))
        if server.phase is Phase.READY and server.patch_loaded is None:
            parts.append(Content.styled("no patch loaded", ink.WARN))
        return Content(" ") + SEPARATOR.join(parts)

    def _prefilled(self, server: ServerState) -> Content:
        """How long ago that rate was, where it is no longer the present one."""
        since = None if server.prefill_at is None else self.picture.since(server.prefill_at)
        return Content.styled(f" {age(since)} ago", ink.MUTED) if since is not None and since > RECENT else Content()

    def _rest(self, server: ServerState) -> Content:
        style = ink.PHASES[server.phase][1]
        said = server.cause or server.detail or server.phase.value
        return Content(" ") + plain(said, ink.PLAIN if server.phase is Phase.STOPPED else style, 300)

    def _shown_processes(self, server: ServerState) -> tuple[ProcessInfo, ...]:
        return server.processes[:MOST_PROCESSES] if server.phase in (Phase.ORPHANS, Phase.PORT_HELD) else ()

    def _identity(self, server: ServerState) -> Content:
        parts = []
        if server.pid is not None:
            parts.append(f"pid {server.pid}")
        parts.append(line(server.model_path or self.picture.profile.server.model_path, 60))
        if server.log_path:
            parts.append(f"log {line(server.log_path, 80)}")
        return Content.styled(" " + " · ".join(parts), ink.MUTED)


def _pair(name: str, value: str) -> Content:
    return Content.assemble((f"{name} ", ink.MUTED), value)


def _health(server: ServerState) -> Content:
    if server.health_status is None:
        return Content.styled("health without answer", ink.BAD)
    took = "" if server.health_ms is None else f", {server.health_ms:.0f} ms"
    style = ink.PLAIN if server.health_status == 200 else ink.BAD
    return Content.assemble(("health ", ink.MUTED), (f"{server.health_status}{took}", style))


def _process(process: ProcessInfo) -> Content:
    whose = "ours" if process.ours else f"{line(process.user, 20)}, not ours"
    return Content.assemble(
        (f"   {process.pid:>7}  ", ink.MUTED), line(process.command, 200), (f"  {whose}", ink.MUTED)
    )
