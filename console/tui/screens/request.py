"""One request: its metadata, its files with expected and found sizes, its checks."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.content import Content

from console.errors import OperatorError
from console.operations import calls
from console.text import size
from console.tui import ink
from console.tui.format import age, count
from console.tui.screens.page import Sheet, keys
from console.tui.sheet import check_lines, error_lines, heading, pair
from console.tui.text import cells, line, plain
from console.tui.threads import in_thread
from console.tui.verification import Verification
from console.tui.widgets.verified import single_lines
from remote.wire.dumps import DumpDetail, DumpFile, DumpState

# The first keys, in the order in which they are read; the rest follows by name. Files have a table of their own.
KEYS_FIRST = (
    "num_tokens",
    "hidden_size",
    "num_aux_layers",
    "captured_at_layers",
    "dtype",
    "rid",
    "counter",
    "timestamp",
)


class RequestScreen(Sheet[None]):
    """verify: begin with that. A verification ends with its page; Esc cancels it first."""

    BINDINGS: ClassVar[list[BindingType]] = keys("dumps.verify")

    def __init__(self, number: int, *, verify: bool = False) -> None:
        super().__init__()
        self.number = number
        self.verification: Verification | None = None
        self._verify_first = verify
        self.detail: DumpDetail | None = None
        self.error: OperatorError | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self._ask()
        if self._verify_first:
            self.do_dumps_verify()

    def on_unmount(self) -> None:
        if self.verification is not None:
            self.verification.stop()

    @work(exclusive=True)
    async def _ask(self) -> None:
        try:
            self.detail = await in_thread(calls.dump, self.console.agent, self.number)
        except OperatorError as error:
            self.error = error
        self.look()

    def do_dumps_verify(self) -> None:
        if self.verification is None or self.verification.ended is not None:
            self.verification = Verification((self.number,), self.console.picture.clock.monotonic())
            self._verify(self.verification)
            self.look()
        else:
            self.notify("It is being verified already; esc cancels that.")

    @work
    async def _verify(self, verification: Verification) -> None:
        await verification.run(self.console)
        self.look()

    def do_back(self) -> None:
        if self.verification is not None and self.verification.stop():
            self.look()
        else:
            self.dismiss(None)

    def title_words(self) -> str:
        return f"req_{self.number}"

    def lines(self, width: int) -> list[Content]:
        if self.error is not None:
            return [Content(), *error_lines(self.error, width)]
        if self.detail is None:
            return [Content(), Content.styled("  reading …", ink.MUTED)]
        if self.detail.row.state is DumpState.GONE:
            return [Content(), plain(f"  {self.detail.row.note}", ink.MUTED), *pair("was at", self.detail.path, width)]
        lines = [Content(), self._verdict(self.detail), *pair("path", self.detail.path, width)]
        if self.verification is not None:
            now = self.console.picture.clock.monotonic()
            lines += [*heading("Verified"), *single_lines(self.verification, now, width)]
        if self.detail.checks:
            lines += [*heading("Checks"), *check_lines(self.detail.checks, width)]
        if self.detail.files:
            lines += [*heading("Files"), *file_lines(self.detail.files, width)]
        return [*lines, *heading("Metadata"), *meta_lines(self.detail, width)]

    def _verdict(self, detail: DumpDetail) -> Content:
        row = detail.row
        words, style = ink.DUMPS[row.state]
        words = "✓ complete" if row.state is DumpState.COMPLETE else words
        ago = age(self.console.picture.since(row.at))
        return Content.assemble(
            (f"  {words}", f"bold {style}"),
            f"  {count(row.tokens)} tokens · {size(row.size)}",
            (" · just now" if ago == "now" else f" · {ago} ago", ink.MUTED),
            plain(f"  {line(row.remark)}" if row.remark else "", style),
        )


def file_lines(files: tuple[DumpFile, ...], width: int) -> list[Content]:
    """A table: name, shape, dtype, payload expected and found, bytes on disk."""
    columns = (
        ("FILE", 16, False),
        ("SHAPE", 14, False),
        ("DTYPE", 10, False),
        ("EXPECTED", 14, True),
        ("FOUND", 14, True),
    )
    shown = columns if width >= 86 else (columns[0], *columns[3:])
    head = Content("  ").join(cells(Content.styled(name, ink.MUTED), wide, right=right) for name, wide, right in shown)
    lines = [Content("     ") + head + cells(Content.styled("ON DISK", ink.MUTED), 14, right=True)]
    for file in files:
        bad = bool(file.problem) or (file.expected is not None and file.payload != file.expected)
        style = ink.BAD if bad else ink.PLAIN
        values = {
            "FILE": plain(file.name, style),
            "SHAPE": plain(" × ".join(map(str, file.shape)), ink.MUTED),
            "DTYPE": plain(file.dtype, ink.MUTED),
            "EXPECTED": Content.styled(count(file.expected), ink.MUTED),
            "FOUND": Content.styled(count(file.payload), style),
        }
        row = Content("  ").join(cells(values[name], wide, right=right) for name, wide, right in shown)
        sign = Content.styled("✗", ink.BAD) if bad else Content.styled("✓", ink.GOOD)
        size_on_disk = cells(Content.styled(count(file.size), ink.MUTED), 14, right=True)
        lines.append(Content.assemble("  ", sign, "  ", row, size_on_disk))
        if file.problem:
            lines.append(plain(f"     {line(file.problem)}", ink.BAD))
    return lines


def meta_lines(detail: DumpDetail, width: int) -> list[Content]:
    meta = {key: value for key, value in detail.meta.items() if key != "files"}
    if not meta:
        return [Content.styled("  none could be read", ink.MUTED)]
    known = [key for key in KEYS_FIRST if key in meta]
    lines: list[Content] = []
    for key in [*known, *sorted(set(meta) - set(known))]:
        lines += pair(key, "null" if meta[key] is None else meta[key], width, wide=22)
    return lines
