"""The list of dumps, once or kept up to date."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Callable, Optional

from remote.wire.dumps import DumpCounts, DumpRow, DumpsChange

from .catalog import Catalog
from .folder import Replaced

INTERVAL_S = 0.2  # between polls, so at most five changes a second
NO_COUNTS = DumpCounts()


def newest(dump_dir: str, last: int) -> DumpsChange:
    """The newest `last` dumps by number and the counts. Never raises for what is in the folder."""
    catalog = Catalog(dump_dir, last)
    try:
        catalog.refresh()
    except OSError as error:
        return _unreadable(dump_dir, error)
    return _Sent(last).change(catalog) or DumpsChange(time.time(), True, (), (), catalog.counts())


def watch(dump_dir: str, last: int, emit: Callable[[DumpsChange], None], cancelled: threading.Event) -> None:
    """Emit the newest `last` rows and the counts, then every change of them, until cancelled.

    A change's `removed` are rows that were sent and are no longer among the newest: deleted, or pushed out by newer
    ones. A folder that can't be listed is a change with a `problem` and no rows; the watch goes on and starts over.
    """
    catalog, sent, problem = Catalog(dump_dir, last), _Sent(last), ""
    while not cancelled.is_set():
        try:
            catalog.refresh()
            change = sent.change(catalog)
            problem = ""
        except Replaced:
            catalog, sent = Catalog(dump_dir, last), _Sent(last)
            continue
        except OSError as error:
            change = _unreadable(dump_dir, error)
            if change.problem == problem:
                change = None
            else:
                catalog, sent, problem = Catalog(dump_dir, last), _Sent(last), change.problem
        if change is not None:
            emit(change)
        cancelled.wait(INTERVAL_S)


class _Sent:
    """What the other side knows, of the newest `last`."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._rows: dict[int, DumpRow] = {}
        self._counts: Optional[DumpCounts] = None

    def change(self, catalog: Catalog) -> Optional[DumpsChange]:
        """What it does not know yet, newest rows first; None when it knows everything."""
        counts, known = catalog.counts(), self._rows
        rows = dict(itertools.islice(catalog.rows.items(), self._last))
        changed = tuple(row for number, row in rows.items() if known.get(number) != row)
        removed = tuple(number for number in known if number not in rows)
        first = self._counts is None
        if not (first or changed or removed or counts != self._counts):
            return None
        self._rows, self._counts = rows, counts
        return DumpsChange(time.time(), first, changed, removed, counts)


def _unreadable(dump_dir: str, error: OSError) -> DumpsChange:
    reasons = {
        FileNotFoundError: "is not there yet: SGLang makes it when it starts with SGLANG_HS_DUMP_DIR set",
        NotADirectoryError: "is not a folder",
        PermissionError: "may not be read by this user",
    }
    reason = reasons.get(type(error), f"can't be listed: {error.strerror}")
    return DumpsChange(time.time(), True, (), (), NO_COUNTS, f"{dump_dir} {reason}")
