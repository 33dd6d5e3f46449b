"""A watch of a folder in a thread, and the picture that its changes make."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from remote.dumps import watch
from remote.dumps.catalog import Catalog
from remote.wire import codec
from remote.wire.dumps import DumpsChange, DumpState
from tests.living import PATIENCE


class Watching:
    """A watch in a thread, and the picture that its changes make."""

    def __init__(self, folder: Path, last: int) -> None:
        self.changes: list[DumpsChange] = []
        self.rows: dict[int, Any] = {}
        self.cancelled = threading.Event()
        self.thread = threading.Thread(target=watch.watch, args=(str(folder), last, self._take, self.cancelled))

    def _take(self, change: DumpsChange) -> None:
        change = codec.decode(DumpsChange, codec.encode(change))
        if change.reset:
            self.rows.clear()
        for number in change.removed:
            del self.rows[number]
        self.rows.update({row.number: row for row in change.rows})
        self.changes.append(change)

    @property
    def states(self) -> dict[int, DumpState]:
        return {number: row.state for number, row in self.rows.items()}

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, (self.changes[-1:], self.states)
            time.sleep(0.02)


@contextlib.contextmanager
def watching(folder: Path, last: int = 100) -> Iterator[Watching]:
    made = Watching(folder, last)
    made.thread.start()
    try:
        made.until(lambda: made.changes)
        yield made
    finally:
        made.cancelled.set()
        made.thread.join(PATIENCE)
        assert not made.thread.is_alive()


def refresh(catalog: Catalog) -> None:
    """A look at the folder now, however early it is for another listing."""
    catalog._folder._due = 0
    catalog.refresh()
