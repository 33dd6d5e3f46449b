"""The patch, four deep: its state in words, the marked lines, the files; apply and revert start here."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.content import Content

from console.errors import OperatorError
from console.operations import calls
from console.tui import ink
from console.tui.screens.diff import DiffScreen
from console.tui.screens.error import ErrorScreen
from console.tui.screens.page import Sheet, keys
from console.tui.sheet import check_lines, heading, pair, sentences
from console.tui.text import line, plain
from console.tui.threads import in_thread
from remote.wire.patch import PatchState, PatchStatus

STATES: dict[PatchState, tuple[str, str, str]] = {
    PatchState.CLEAN: ("○", ink.PLAIN, "not patched"),
    PatchState.APPLIED: ("✓", ink.GOOD, "applied"),
    PatchState.OUTDATED: ("!", ink.WARN, "applied by another version"),
    PatchState.DRIFTED: ("✗", ink.BAD, "our marks, other content"),
    PatchState.FOREIGN: ("!", ink.WARN, "patched by hand, not by hsconsole"),
    PatchState.UNKNOWN_RELEASE: ("✗", ink.BAD, "a release no recipe knows"),
    PatchState.UNKNOWN_MODEL: ("✗", ink.BAD, "a model no recipe is for"),
    PatchState.NO_SGLANG: ("✗", ink.BAD, "this Python has no SGLang"),
}


class PatchScreen(Sheet[None]):
    """Shows the status that the app keeps; coming here takes it anew."""

    BINDINGS: ClassVar[list[BindingType]] = keys(where="patch")

    def on_mount(self) -> None:
        super().on_mount()
        self.console.look_at_patch()

    def on_screen_resume(self) -> None:
        self.look()

    def title_words(self) -> str:
        return "Patch"

    def lines(self, width: int) -> list[Content]:
        picture = self.console.picture
        problem = [Content(), plain(f"  {line(picture.patch_problem, 300)}", ink.WARN)] if picture.patch_problem else []
        if picture.patch is None:
            return problem or [Content(), Content.styled("  looking …", ink.MUTED)]
        return [*problem, Content(), *status_lines(picture.patch, width)]

    def do_patch_diff(self) -> None:
        self._diff()

    @work(exclusive=True)
    async def _diff(self) -> None:
        try:
            plan = await in_thread(calls.patch_diff, self.console.agent)
        except OperatorError as error:
            self.app.push_screen(ErrorScreen(error))
            return
        self.app.push_screen(DiffScreen(plan))


def status_lines(status: PatchStatus, width: int) -> list[Content]:
    sign, style, words = STATES[status.state]
    version = f", version {line(status.version, 20)}" if status.version and status.state is PatchState.APPLIED else ""
    lines = [Content.styled(f"  {sign} {words}{version}", f"bold {style}"), *sentences([status.summary], width, " ")]
    lines += [Content(), *check_lines(status.depths, width)]
    lines += heading("Where")
    lines += pair("SGLang", status.sglang_version or "none", width)
    lines += pair("recipe", status.family or "none fits", width)
    lines += pair("Python", status.python, width)
    lines += pair("model file", status.model_file or "not found", width)
    if status.file_sha256:
        lines += pair("sha256", status.file_sha256, width, style=ink.MUTED)
    if status.original_sha256 and status.original_sha256 != status.file_sha256:
        lines += pair("original", status.original_sha256, width, style=ink.MUTED)
    if status.notes:
        lines += [*heading("Notes"), *sentences(status.notes, width)]
    if status.lines:
        lines += heading(f"Marked lines: {len(status.lines)}")
        lines += [
            Content.assemble((f"  {marked.number:>6}  ", ink.MUTED), plain(marked.text, longest=300))
            for marked in status.lines
        ]
    return lines
