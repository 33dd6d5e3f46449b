"""The counts of a dump folder in words, the same wherever they are told."""

from __future__ import annotations

from remote.wire.dumps import DumpCounts


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
