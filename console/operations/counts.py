"""How many dumps there are of a kind, in words that are the same wherever they are told."""

from __future__ import annotations

from collections.abc import Sequence

from remote.wire.dumps import DumpCounts

NAMED = 10  # of superseded dumps


def told(counts: DumpCounts) -> str:
    """`996 complete, 2 in progress, 2 bad; 36,312 older not looked at`, or what became of them where there are none."""
    if not counts.there:
        return none_here(counts)
    newest = f"{counts.complete:,} complete, {counts.writing:,} in progress, {counts.bad:,} bad"
    return newest + (f"; {counts.older:,} older not looked at" if counts.older else "")


def none_here(counts: DumpCounts) -> str:
    if counts.given:
        return f"none is here now: {counts.given:,} were dumped so far, and taken away"
    return "no requests yet"


def superseded(numbers: Sequence[int]) -> str:
    """Which dumps nobody waits for, the first of them by name; empty where there are none."""
    return f"{len(numbers):,} superseded, because the request was sent again: {_named(numbers)}" if numbers else ""


def longer(numbers: Sequence[int]) -> str:
    """Which dumps are no prompts, but what SGLang prefilled again; empty where there are none."""
    return (
        f"{len(numbers):,} longer than an older one of the same rid, so retracted: {_named(numbers)}" if numbers else ""
    )


def _named(numbers: Sequence[int]) -> str:
    named = ", ".join(f"req_{number}" for number in numbers[:NAMED])
    return named + (f" and {len(numbers) - NAMED:,} more" if len(numbers) > NAMED else "")
