"""hsconsole demo."""

from __future__ import annotations

import shutil
import sys
import time

import click

from console.cli import output
from console.cli.screen import need_terminal, open_profile
from console.cli.session import EXIT_NOT_OK
from console.config.profile import Profile
from console.demo import check
from console.demo.check import CheckReport
from console.demo.job import JobStep
from console.demo.progress import Progress
from console.demo.tour import tour
from console.text import one_line, span
from remote.wire.plan import Verdict

NAME_WIDTH, TIME_WIDTH = 26, 7
SILENCE = 5.0  # seconds between two lines of one stage


@click.command("demo")
@click.option(
    "--check", "checking", is_flag=True, help="Do the whole job without the screen; exit 0 only if it worked."
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print one JSON document instead of text.")
def command(checking: bool, as_json: bool) -> None:
    """See the whole job on this machine: real SGLang on the CPU, over real SSH.

    The first time it builds SGLang's environment in the cache folder: 2.4 GB, some minutes.
    """
    if checking:
        sys.exit(_check(as_json=as_json))
    if as_json:
        raise click.UsageError("--json goes with --check.")
    need_terminal("`hsconsole demo --check` needs no screen.")
    line = ProgressLine()

    def open_screen(profile: Profile, hint: str) -> None:
        line.clear()
        open_profile(profile, hint)

    try:
        tour(line.show, open_screen)
    finally:
        line.clear()  # whatever ended the screen
    output.say("The demo is over: the server is stopped, the patch taken out, the dumps removed.")


def _check(*, as_json: bool) -> int:
    line = ProgressLine()

    def on_step(step: JobStep) -> None:
        line.clear()
        if not as_json:
            _print_step(step)

    report = check.run(line.show, on_step)
    line.clear()
    if as_json:
        output.print_json(report)
    else:
        _print_end(report)
    return 0 if report.ok else EXIT_NOT_OK


def _print_step(step: JobStep) -> None:
    mark, colour = output.MARKS[Verdict.OK if step.ok else Verdict.BAD]
    first, *rest = output.lines_of(step.detail) or [""]
    name = f"{one_line(step.name):<{NAME_WIDTH}} {span(step.seconds):>{TIME_WIDTH}}"
    click.echo(f"{click.style(mark, fg=colour)} {name}  {first}")
    for more in rest:
        click.echo(f"{'':{NAME_WIDTH + TIME_WIDTH + 5}}{more}")
    if not step.ok:
        output.print_checks(check for check in step.checks if check.verdict is not Verdict.OK)


def _print_end(report: CheckReport) -> None:
    for text in report.stood_in:
        output.say(f"· stood in: {text}")
    if report.error is not None:
        output.say(f"✗ {report.error.title}", fg="red")
        for line in (*output.lines_of(report.error.what), *output.lines_of(report.error.remedy)):
            output.say(f"  {line}")
    verdict = "every second look agreed" if report.ok else "NOT as it should be"
    output.say(f"{span(report.seconds)}: {verdict}", fg="green" if report.ok else "red", bold=True)


class ProgressLine:
    """What is being done, on stderr: one line that changes; without a terminal, lines now and then."""

    def __init__(self) -> None:
        self._terminal = output.on_terminal(sys.stderr)
        self._stage = ""
        self._said = 0.0

    def show(self, progress: Progress) -> None:
        text = one_line(f"{span(progress.seconds):>{TIME_WIDTH}}  {progress.stage}  {progress.detail}")
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[2K{text[:width]}", nl=False, err=True)
        elif progress.stage != self._stage or time.monotonic() - self._said > SILENCE:
            click.echo(text, err=True)
            self._said = time.monotonic()
        self._stage = progress.stage

    def clear(self) -> None:
        if self._terminal:
            click.echo("\r\x1b[2K", nl=False, err=True)
        self._stage = ""
