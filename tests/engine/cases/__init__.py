"""The dumper's hooks with real tensors on the CPU, a case a function; `dumper_cases.py` runs them all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from remote.dumper import release

CASES: list[Callable[[], None]] = []


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES.append(function)
    return function


@contextlib.contextmanager
def arguments(**known: Any) -> Iterator[None]:
    """What the server was started with."""
    real = release.option
    release.option = lambda name: known.get(name, release.MISSING)
    try:
        yield
    finally:
        release.option = real
