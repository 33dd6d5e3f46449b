"""hsconsole dumps …"""

from __future__ import annotations

import sys

import click

from console.cli import output
from console.cli.guessing import Guessing
from console.cli.session import EXIT_NOT_OK, session
from console.cli.verify import verify
from console.errors import DumpError
from console.operations import calls
from console.operations.counts import told
from console.operations.verdicts import tested
from console.text import size, span
from remote.wire.dumps import DumpDetail, DumpRow, DumpsChange, DumpState, DumpTest
from remote.wire.plan import Verdict

GOOD = (DumpState.COMPLETE, DumpState.WRITING)


@click.group("dumps", cls=Guessing)
def command() -> None:
    """List, show, test and verify dumped requests."""


command.add_command(verify)


@command.command("list")
@output.json_option
@click.option(
    "--last", default=50, show_default=True, type=click.IntRange(1, 1_000_000), help="How many, newest first."
)
@click.pass_obj
def list_(profile: str | None, as_json: bool, last: int) -> None:
    """List the newest requests."""
    with session(profile) as (agent, _):
        found = calls.dumps(agent, last)
    if as_json:
        output.print_json(found)
    else:
        _print_list(found)


@command.command()
@output.json_option
@click.argument("number", type=click.IntRange(0))
@click.pass_obj
def show(profile: str | None, as_json: bool, number: int) -> None:
    """Show req_NUMBER: its metadata, files and checks. Exits 1 unless every check is well."""
    with session(profile) as (agent, _):
        found = calls.dump(agent, number)
    if found.row.state is DumpState.GONE:
        raise DumpError(found.row.note, "Those that are there: hsconsole dumps list.")
    if as_json:
        output.print_json(found)
    else:
        _print_detail(found)
    well = found.row.state is DumpState.COMPLETE and all(c.verdict is not Verdict.BAD for c in found.checks)
    sys.exit(0 if well else EXIT_NOT_OK)


@command.command()
@output.json_option
@click.pass_obj
def test(profile: str | None, as_json: bool) -> None:
    """Send ids 1…10, wait for the dump, and check it. Exits 1 unless every check is well."""
    steps, on_step = output.steps_told(as_json=as_json)
    with session(profile) as (agent, used):
        result = calls.dump_test(agent, used, on_step)
    if as_json:
        output.print_json({"steps": steps, "test": result})
    else:
        _print_test(result)
    sys.exit(0 if result.ok else EXIT_NOT_OK)


def _print_list(found: DumpsChange) -> None:
    if found.problem:
        output.say(found.problem, fg="yellow")
    for row in sorted(found.rows, key=lambda row: -row.number):
        _print_row(row, found.at)
    counts = found.counts
    if not found.problem:
        output.say(told(counts), bold=True)
    if counts.odd_total:
        output.say(f"{counts.odd_total} names that are no request: {', '.join(counts.odd)}", fg="yellow")


def _print_row(row: DumpRow, now: float) -> None:
    tokens = "?" if row.tokens is None else f"{row.tokens:,}"
    layers = ",".join(map(str, row.layers))
    colour = None if row.state in GOOD else "red"
    text = f"req_{row.number:<8} {span(now - row.at):>8} ago {tokens:>8} tokens {size(row.size):>9}  {layers:<10} "
    output.say(text + f"{row.state.value:<9} {row.rid or '':<20} {row.remark}", fg=colour)


def _print_detail(found: DumpDetail) -> None:
    output.say(f"{found.path}: {found.row.state.value} {found.row.remark}", bold=True)
    for key, value in sorted(found.meta.items()):
        if key != "files":
            output.say(f"  {key}: {value}")
    for file in found.files:
        shape = f"{file.dtype} {list(file.shape)}" if file.dtype else ""
        expected = "" if file.expected is None else f", payload {file.payload} of {file.expected} expected"
        colour = "red" if file.problem else None
        output.say(f"  {file.name:<14} {file.size:>12,} bytes{expected}  {shape}  {file.problem}", fg=colour)
    output.print_checks(found.checks)


def _print_test(result: DumpTest) -> None:
    output.print_checks(result.checks)
    text = f"{tested(result)} (rid {result.rid}, {span(result.seconds)})"
    output.say(text, fg="green" if result.ok else "red", bold=True)
