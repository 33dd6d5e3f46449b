"""hsconsole dumps verify."""

from __future__ import annotations

import sys

import click

from console.cli import output
from console.cli.session import EXIT_NOT_OK, session
from console.operations import calls
from console.operations.counts import longer, superseded
from console.text import size, span
from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult, VerifySummary

COLOURS = {Verified.OK: "green", Verified.WARN: "yellow", Verified.UNVERIFIED: "cyan", Verified.GONE: None}
QUIET_FROM = 20  # dumps; of so many only those that are not ok are told
LEVELS = [level.value for level in Level]


@click.command()
@output.json_option
@click.argument("numbers", metavar="[N]...", nargs=-1, type=click.IntRange(0))
@click.option("--all", "everything", is_flag=True, help="Every dump in the folder.")
@click.option("--level", default=Level.CONTENT.value, show_default=True, type=click.Choice(LEVELS), help="How deep.")
@click.pass_obj
def verify(profile: str | None, as_json: bool, numbers: tuple[int, ...], everything: bool, level: str) -> None:
    """Verify each req_N, or all, as deep as asked.

    Structure (files, sizes, checksums), content (every number), or meaning, for which the running server gets each
    prompt again. Exits 1 unless all are well and nothing was left unverified.
    """
    if everything == bool(numbers):
        raise click.UsageError("Name dumps by their numbers, or say --all.")
    results: list[VerifyResult] = []

    def on_progress(progress: VerifyProgress) -> None:
        results.extend(progress.results)
        if not as_json:
            with output.as_it_goes():
                _print(progress)

    with session(profile) as (agent, used):
        found = calls.dumps_verify(agent, used, None if everything else numbers, Level(level), on_progress)
    if as_json:
        output.print_json({"results": results, "summary": found})
    else:
        _print_summary(found)
    sys.exit(0 if found.ok else EXIT_NOT_OK)


def _print(progress: VerifyProgress) -> None:
    for result in progress.results:
        if result.verdict is Verified.OK and progress.total >= QUIET_FROM:
            continue
        output.say(f"req_{result.number:<8} {result.verdict.value}", fg=COLOURS.get(result.verdict, "red"))
        output.print_checks(result.checks)


def _print_summary(found: VerifySummary) -> None:
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(found.counts.items())) or "no dump"
    rate = f"{size(found.bytes)} in {span(found.seconds)}"
    stopped = "stopped halfway: " if found.stopped else ""
    norms = f"; norms: {found.norms}" if found.norms else ""
    text = f"{stopped}{counts}; {found.level.value}, {rate}{norms}"
    output.say(text, fg="green" if found.ok else "red" if found.faulty else "yellow", bold=True)
    if found.superseded:
        output.say(superseded(found.superseded), fg="yellow")
    if found.longer:
        output.say(longer(found.longer), fg="yellow")
    if found.note:
        output.say(f"! {found.note}", fg="yellow")
