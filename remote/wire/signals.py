"""Signals in words: a plan shows these, and whoever sends them records the same."""

from __future__ import annotations

from collections.abc import Iterable

ASK, KILL = "Ask them to end", "Kill what is left"
TITLES = {"TERM": ASK, "KILL": KILL}


def kill(name: str, pids: Iterable[int]) -> str:
    """What a shell would run. The agent sends the signal itself, to each that still is the process it was."""
    return " ".join((f"kill -{name}", *map(str, pids)))


def marked(identities: Iterable[Iterable[int]]) -> list[str]:
    """Each pid with its start time, `53:900`: a word of a command that looks at both before it signals."""
    return [":".join(map(str, identity)) for identity in identities]
