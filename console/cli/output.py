"""What the command line prints: plans, steps, checks and errors; the same values as JSON with --json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TextIO, TypeVar

import click

from console.errors import OperatorError
from console.text import harmless, span
from remote.wire.codec import encode
from remote.wire.plan import Check, Outcome, Plan, StepResult, Verdict

F = TypeVar("F", bound=Callable[..., Any])

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
    click.secho(harmless(text), **style)


def print_error(error: OperatorError, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"error": error.report()})  # a line, because it may end a stream of lines
        return
    click.secho(f"✗ {error.title}", fg="red", bold=True, err=True)
    for line in error.what.splitlines():
        click.echo(f"  {harmless(line)}", err=True)
    for line in error.remedy.splitlines():
        click.secho(f"  → {harmless(line)}", err=True)


def print_checks(checks: Iterable[Check]) -> None:
    """A line a check; what to do below those that are not well."""
    listed = list(checks)
    width = max((len(check.name) for check in listed), default=0)
    for check in listed:
        mark, colour = MARKS[check.verdict]
        first, *rest = check.found.splitlines() or [""]
        click.echo(f"{click.style(mark, fg=colour)} {harmless(check.name):<{width}}  {harmless(first)}")
        for line in rest:
            click.echo(f"  {'':<{width}}  {harmless(line)}")
        if check.remedy and check.verdict is not Verdict.OK:
            click.echo(f"  {'':<{width}}  → {harmless(check.remedy)}")


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
        for line in step.command.splitlines():
            say(f"       $ {line}", fg="cyan")
    for loss in plan.losses:
        say(f"  ! {loss}", fg="yellow")


def print_step(step: StepResult) -> None:
    mark, colour = ("✓", "green") if step.ok else ("✗", "red")
    tail = f"  {harmless(step.detail)}" if step.detail else ""
    click.echo(f"{click.style(mark, fg=colour)} {harmless(step.title)} ({span(step.seconds)}){tail}")


def steps_told(*, as_json: bool) -> tuple[list[StepResult], Callable[[StepResult], None]]:
    """The steps of what goes on, as they end, and who to tell of each: printed at once, unless they go into JSON."""
    steps: list[StepResult] = []

    def on_step(step: StepResult) -> None:
        steps.append(step)
        if not as_json:
            print_step(step)

    return steps, on_step


def print_outcome(outcome: Outcome) -> None:
    print_checks(outcome.checks)
    say(outcome.summary, fg="green" if outcome.ok else "red", bold=True)
