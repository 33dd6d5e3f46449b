"""Finds the dump of a request that was just sent: by its rid, else by its ids, else as the newest of its length."""

from __future__ import annotations

import os
from typing import Optional

from remote.wire.dumps import DumpRow, DumpState

from . import meta as metadata
from . import rows
from .folder import Folder, Replaced
from .measured import ids_sha256
from .meta import Meta
from .verdict import Expected


class Search:
    """Made before the request is sent: what is in the dump folder then is not its dump."""

    def __init__(self, dump_dir: str) -> None:
        self._dump_dir = dump_dir
        self._folder = Folder(dump_dir)
        self._added: set[str] = set()
        self._unlike: dict[str, DumpRow] = {}
        self._take()
        self._added.clear()

    @property
    def others(self) -> int:
        """Dumps that came meanwhile and belong to other requests."""
        return sum(row.rid is not None for row in self._unlike.values())

    def look(self, expected: Expected) -> Optional[DumpRow]:
        """The finished dump of that request, when it is there."""
        self._take()
        for name in sorted(self._added):
            row = rows.examine(self._dump_dir, name)
            if row is None or row.state in (DumpState.GONE, DumpState.WRITING):
                continue
            if belongs(metadata.read(os.path.join(self._dump_dir, name)), expected.rid, expected.ids):
                return row
            self._unlike[name] = row
            self._added.discard(name)
        return None

    def guess(self, expected: Expected) -> Optional[DumpRow]:
        """The newest finished dump since the request that does not say whose it is; right rows or not.

        Also one that a restarted forerunner wrote over an older one of the same number.
        """
        nameless = [row for row in self._unlike.values() if row.rid is None]
        if nameless:
            return max(nameless, key=lambda row: row.number)
        written = (rows.examine(self._dump_dir, name) for name in self._done_since(expected.since))
        found = (row for row in written if row is not None and row.rid is None and row.state is DumpState.COMPLETE)
        return max(found, key=lambda row: row.at, default=None)

    def _take(self) -> None:
        try:
            changes = self._folder.changes()
        except Replaced:
            self._folder = Folder(self._dump_dir)
            return self._take()
        except OSError:
            return None
        self._added -= changes.removed
        self._added |= {name for name in changes.added if name.startswith("req_") and rows.number_of(name) is not None}
        return None

    def _done_since(self, since: float) -> list[str]:
        try:
            return [name for name in os.listdir(self._dump_dir) if self._done_at(name) >= since]
        except OSError:
            return []

    def _done_at(self, name: str) -> float:
        try:
            return os.lstat(os.path.join(self._dump_dir, name, "done")).st_mtime if name.startswith("req_") else 0.0
        except OSError:
            return 0.0


def belongs(meta: Meta, rid: str, ids: tuple[int, ...]) -> bool:
    """Whether a dump is of the request `rid` with these ids, by the best that it says of itself."""
    if meta.rid is not None:
        return meta.rid == rid
    if meta.ids_sha256 is not None:
        return meta.ids_sha256 == ids_sha256(ids)
    return meta.num_tokens == len(ids)
