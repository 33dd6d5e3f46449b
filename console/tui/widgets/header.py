"""Two lines that are always there: where we are and how the link is; the patch and the server."""

from __future__ import annotations

from textual.content import Content

from console.link import LinkPhase
from console.tui import ink
from console.tui.format import age, clock
from console.tui.picture import Picture, address
from console.tui.text import cells, line, plain
from console.tui.widgets.painted import Painted
from remote.wire.patch import PatchState
from remote.wire.server import Phase, ServerState

GAP = Content("   ")

LINKS: dict[LinkPhase, tuple[str, str]] = {
    LinkPhase.CONNECTING: ("◌", ink.WARN),
    LinkPhase.LIVE: ("●", ink.GOOD),
    LinkPhase.STALE: ("◌", ink.WARN),
    LinkPhase.LOST: ("○", ink.WARN),
    LinkPhase.REFUSED: ("✗", ink.BAD),
    LinkPhase.CLOSED: ("○", ink.MUTED),
}

PATCHES: dict[PatchState, str] = {
    PatchState.CLEAN: ink.MUTED,
    PatchState.APPLIED: ink.PLAIN,
    PatchState.OUTDATED: ink.WARN,
    PatchState.DRIFTED: ink.BAD,
    PatchState.FOREIGN: ink.WARN,
    PatchState.UNKNOWN_RELEASE: ink.BAD,
    PatchState.UNKNOWN_MODEL: ink.BAD,
    PatchState.NO_SGLANG: ink.BAD,
}
UNPATCHED = (PatchState.CLEAN, PatchState.NO_SGLANG, PatchState.UNKNOWN_RELEASE, PatchState.UNKNOWN_MODEL)


class Header(Painted):
    def paint(self, width: int) -> Content:
        inner = width - 2
        first = self._first(inner)
        second = spread(
            patch_words(self.picture, short=width < 100), server_words(self.picture, short=width < 70), inner
        )
        if self.picture.overdue(ServerState) is not None:
            second = ink.faded(second)
        return Content("\n").join(Content(" ") + row + " " for row in (first, second))

    def _place(self) -> Content:
        profile = self.picture.profile
        place = Content.assemble(plain(profile.name or "console", ink.STRONG), "  ", plain(address(profile)))
        if profile.proxmox is not None:
            place += Content.styled(f" on {line(profile.proxmox.host)}", ink.MUTED)
        return place + GAP + link_words(self.picture)

    def _first(self, width: int) -> Content:
        """Where there is no room for both, what is stood in for gives way: the state of the link must be read."""
        place, labels = self._place(), self._labels()
        fits = place.cell_length + 2 + labels.cell_length <= width
        return spread(place, labels if fits else self._labels(short=True), width)

    def _labels(self, *, short: bool = False) -> Content:
        profile = self.picture.profile
        labels: list[Content] = []
        if profile.stood_in:
            labels.append(plain("demo" if short else f"demo: {', '.join(profile.stood_in)}", ink.WARN))
        if profile.read_only:
            labels.append(Content.styled("read-only", f"bold {ink.WARN}"))
        return Content("  ").join(labels)


def link_words(picture: Picture) -> Content:
    """The state of the link, as it is said in the header."""
    link = picture.link
    sign, style = LINKS[link.phase]
    if link.phase is LinkPhase.LIVE:
        words = "live" if link.round_trip_ms is None else f"live, {link.round_trip_ms:.0f} ms"
        if link.detail not in ("", "live"):  # what one of the streams lacks
            return Content.styled(f"{sign} {words}", style) + Content.styled(f"  {line(link.detail, 120)}", ink.WARN)
    elif link.phase is LinkPhase.STALE:
        words = f"no answer for {age(picture.stale or 0.0)}"
    elif link.phase is LinkPhase.LOST:
        why = f": {line(link.detail, 120)}" if link.detail else ""
        words = f"lost, {_retry(picture)}{why}"
    elif link.phase is LinkPhase.REFUSED:
        words = line(link.error.title if link.error else link.detail)
    else:
        words = line(link.detail) or link.phase.value
    return Content.styled(f"{sign} {words}", style)


def _retry(picture: Picture) -> str:
    if picture.link.retry_at is None:
        return "trying again"
    left = picture.link.retry_at - picture.clock.monotonic()
    return f"trying again in {left:.0f} s" if left >= 1 else "trying again"


def patch_words(picture: Picture, *, short: bool) -> Content:
    """`patch v3 ✓ text ✓ hash ✓ imported ✓ loaded`, or what is known instead. short: the signs without their names."""
    patch = picture.patch
    head = Content.styled("patch ", ink.MUTED)
    if patch is None:
        return head + plain(picture.patch_problem or "not checked yet", ink.MUTED, 60)
    words = f"v{line(patch.version)}" if patch.state is PatchState.APPLIED and patch.version else patch.state.value
    head += Content.styled(words, PATCHES[patch.state])
    if patch.state in UNPATCHED:
        return head
    signs = [ink.mark(check.verdict) + ("" if short else f" {line(check.name, 20)}") for check in patch.depths]
    return head + "  " + Content("" if short else "  ").join(signs)


def server_words(picture: Picture, *, short: bool) -> Content:
    """`server ● ready 2:14:07  sglang 0.5.9  :8000`. short: without the release."""
    server = picture.server
    head = Content.styled("server ", ink.MUTED)
    if server is None:
        return head + Content.styled("not seen yet", ink.MUTED)
    sign, style = ink.STOPPING if picture.stopping else ink.PHASES[server.phase]
    head += Content.styled(f"{sign} {'stopping' if picture.stopping else server.phase.value}", style)
    if server.age is not None and server.phase is not Phase.STOPPED:
        head += f" {clock(server.age + picture.server_elapsed())}"
    version = f"  sglang {line(server.sglang_version, 20)}" if server.sglang_version and not short else ""
    return head + Content.styled(f"{version}  :{server.port}", ink.MUTED)


def spread(left: Content, right: Content, width: int) -> Content:
    """`left` and `right` at the two ends of `width` cells; where both don't fit, the left one is cut."""
    room = width - right.cell_length - (2 if right else 0)
    return cells(left, max(room, 0)) + ("  " if right else "") + cells(right, min(right.cell_length, width))
