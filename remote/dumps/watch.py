"""The list of dumps, once or kept up to date."""

from __future__ import annotations

import heapq
import math
import threading
import time
from typing import Callable, Optional

from remote.wire.dumps import DumpCounts, DumpRow, DumpsChange

from .catalog import Catalog
from .folder import Replaced

INTERVAL_S = 0.2  # between polls, so at most five changes a second
LOOK_S = 0.02  # a poll, for dumps older than the rows
COUNTED = 1000  # newest dumps that are examined for the counts, however few are asked for
NO_COUNTS = DumpCounts()


def newest(dump_dir: str, last: int) -> DumpsChange:
    """The newest `last` dumps by number and the counts over all, which are the same for every `last` up to `COUNTED`.

    Never raises for what is in the folder.
    """
    catalog = Catalog(dump_dir, max(last, COUNTED))
    try:
        catalog.refresh(math.inf)
    except OSError as error:
        return _unreadable(dump_dir, error)
    shown = heapq.nlargest(last, catalog.rows)
    return DumpsChange(time.time(), True, tuple(catalog.rows[number] for number in shown), (), catalog.counts())


def watch(dump_dir: str, last: int, emit: Callable[[DumpsChange], None], cancelled: threading.Event) -> None:
    """Emit the newest `last` rows and the counts, then every change of them, until cancelled.

    A change's `removed` are rows that were sent and are no longer among the newest: deleted, or pushed out by newer
    ones. A folder that can't be listed is a change with a `problem` and no rows; the watch goes on and starts over.
    """
    catalog, sent, problem = Catalog(dump_dir, last), _Sent(), ""
    while not cancelled.is_set():
        try:
            catalog.refresh(LOOK_S)
            change = sent.change(catalog)
            problem = ""
        except Replaced:
            catalog, sent = Catalog(dump_dir, last), _Sent()
            continue
        except OSError as error:
            change = _unreadable(dump_dir, error)
            if change.problem == problem:
                change = None
            else:
                catalog, sent, problem = Catalog(dump_dir, last), _Sent(), change.problem
        if change is not None:
            emit(change)
        cancelled.wait(INTERVAL_S)


class _Sent:
    """What the other side knows."""

    def __init__(self) -> None:
        self._rows: dict[int, DumpRow] = {}
        self._counts: Optional[DumpCounts] = None

    def change(self, catalog: Catalog) -> Optional[DumpsChange]:
        """What it does not know yet, newest rows first; None when it knows everything."""
        counts, known = catalog.counts(), self._rows
        changed = tuple(row for number, row in catalog.rows.items() if known.get(number) != row)
        removed = tuple(number for number in known if number not in catalog.rows)
        first = self._counts is None
        if not (first or changed or removed or counts != self._counts):
            return None
        self._rows, self._counts = dict(catalog.rows), counts
        return DumpsChange(time.time(), first, changed, removed, counts)


def _unreadable(dump_dir: str, error: OSError) -> DumpsChange:
    reasons = {
        FileNotFoundError: "is not there yet: SGLang makes it when it starts with SGLANG_HS_DUMP_DIR set",
        NotADirectoryError: "is not a folder",
        PermissionError: "may not be read by this user",
    }
    reason = reasons.get(type(error), f"can't be listed: {error.strerror}")
    return DumpsChange(time.time(), True, (), (), NO_COUNTS, f"{dump_dir} {reason}")
