"""What the command line prints: plans, steps, checks and errors; the same values as JSON with --json."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Container, Iterable
from typing import Any, TextIO, TypeVar

import click

from console.cli.guard import Guarded, OutputLost
from console.errors import OperatorError
from console.text import harmless, one_line, span
from remote.wire.codec import encode
from remote.wire.plan import Check, OnStep, Outcome, Plan, StepResult, Verdict

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_NAME = 60  # of a check, whose column is as wide
MOST_LINES = 200  # of one text: more would only push away what stood above it
MARKS = {
    Verdict.OK: ("✓", "green"),
    Verdict.WARN: ("!", "yellow"),
    Verdict.BAD: ("✗", "red"),
    Verdict.UNKNOWN: ("?", "cyan"),
}


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(function)


def on_terminal(*streams: TextIO | None) -> bool:
    """Whether an operator is at all of `streams`; one that was closed from outside is None."""
    return all(stream is not None and stream.isatty() for stream in streams)


def print_json(value: Any) -> None:
    """In ASCII: remote text may hold what no terminal, and no encoding, should be given as it is."""
    click.echo(json.dumps(encode(value), indent=2))


def print_json_line(value: Any) -> None:
    click.echo(json.dumps(encode(value)))


def say(text: str, **style: Any) -> None:
    """A line of text, made harmless first."""
    click.secho(one_line(text), **style)


def lines_of(text: str) -> list[str]:
    """The lines of a text, each of them harmless, and what is left out."""
    lines = text.splitlines()
    more = [f"… {len(lines) - MOST_LINES:,} lines more"] if len(lines) > MOST_LINES else []
    return [harmless(line) for line in lines[:MOST_LINES]] + more


def print_error(error: OperatorError, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"error": error.report()})  # a line, because it may end a stream of lines
        return
    click.secho(f"✗ {one_line(error.title)}", fg="red", bold=True, err=True)
    for line in lines_of(error.what):
        click.echo(f"  {line}", err=True)
    for line in lines_of(error.remedy):
        click.secho(f"  → {line}", err=True)


def print_checks(checks: Iterable[Check]) -> None:
    """A line a check; what to do below those that are not well."""
    listed = list(checks)
    names = [one_line(check.name, LONGEST_NAME) for check in listed]
    width = max(map(len, names), default=0)
    for check, name in zip(listed, names, strict=True):
        mark, colour = MARKS[check.verdict]
        first, *rest = lines_of(check.found) or [""]
        click.echo(f"{click.style(mark, fg=colour)} {name:<{width}}  {first}")
        for line in rest:
            click.echo(f"  {'':<{width}}  {line}")
        if check.remedy and check.verdict is not Verdict.OK:
            click.echo(f"  {'':<{width}}  → {one_line(check.remedy)}")


def print_diff(diff: str) -> None:
    for line in diff.splitlines():
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(harmless(line), fg=colour)


def print_plan(plan: Plan) -> None:
    say(plan.title, bold=True)
    for note in plan.notes:
        say(f"  · {note}")
    for number, step in enumerate(plan.steps, 1):
        say(f"  {number}. {step.title}")
        for line in lines_of(step.command):
            say(f"       $ {line}", fg="cyan")
    for loss in plan.losses:
        say(f"  ! {loss}", fg="yellow")


def as_it_goes() -> contextlib.AbstractContextManager[None]:
    """What goes on does not end because what is said of it can't be written: its end meets the same."""
    return contextlib.suppress(OutputLost)


def end_unread() -> None:
    """Raise BrokenPipeError where nobody reads on: for what would go on for ever."""
    if isinstance(sys.stdout, Guarded):
        sys.stdout.end_unread()


def print_step(step: StepResult) -> None:
    with as_it_goes():
        _print_step(step)


def _print_step(step: StepResult) -> None:
    mark, colour = ("✓", "green") if step.ok else ("✗", "red")
    tail = f"  {one_line(step.detail)}" if step.detail else ""
    click.echo(f"{click.style(mark, fg=colour)} {one_line(step.title)} ({span(step.seconds)}){tail}")


def steps_told(*, as_json: bool, only: Container[str] | None = None) -> tuple[list[StepResult], OnStep]:
    """The steps of what goes on, as they end, and who to tell of each: printed at once, unless they go into JSON.

    only: the titles of those that are printed, where the others are told later.
    """
    steps: list[StepResult] = []

    def on_step(step: StepResult) -> None:
        steps.append(step)
        if not as_json and (only is None or step.title in only):
            print_step(step)

    return steps, on_step


def print_outcome(outcome: Outcome) -> None:
    print_checks(outcome.checks)
    say(outcome.summary, fg="green" if outcome.ok else "red", bold=True)
