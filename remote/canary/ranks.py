"""Rank 0 against the other ranks of a tensor-parallel group, which write a copy of a request that is named to them.

`<dump folder>/.canary` names it, by its rid and by the SHA-256 of its ids; the copies are dumps below
`<dump folder>/.ranks/<tp_rank>/`. See 'Other ranks' in docs/format.md.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any, Optional

from remote.dumps import meta as metadata
from remote.dumps.archive import TensorProblem
from remote.dumps.dump import Dump
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

from . import compare, states
from .states import States

NAME = "ranks"
_WAIT_S = 10.0
_DEPTH = 3
_MOST = 10_000  # directories looked at
_REMEDY = (
    "The ranks disagree: what is dumped are one rank's partial sums, or some ranks compute otherwise. Start without "
    "all-reduce fusion, with the patch of this hsconsole."
)


class Ranks:
    """One request for all ranks: name it before it is sent, withdraw it when it was answered."""

    def __init__(self, target: Target, rid: str, ids_sha256: str) -> None:
        self._target = target
        self._wanted = (rid, ids_sha256)
        self._path = os.path.join(target.dump_dir, ".canary")
        self._copies: dict[int, str] = {}

    def name(self) -> None:
        if self._target.tp > 1:
            with contextlib.suppress(OSError):  # then no copy comes, and that is said
                temporary = f"{self._path}.{os.getpid()}"
                with open(temporary, "w", encoding="ascii") as file:
                    file.write("\n".join(self._wanted) + "\n")
                os.replace(temporary, self._path)

    def withdraw(self) -> None:
        if self._target.tp > 1:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def check(self, numpy: Any, first: States) -> Check:
        """first: what rank 0 wrote."""
        others = self._target.tp - 1
        if not others:
            return Check(NAME, Verdict.UNKNOWN, "one rank: nothing to compare with")
        self._wait(others)
        if len(self._copies) < others:
            found = f"{len(self._copies)} of {others} other ranks wrote their copy within {_WAIT_S:.0f} s"
            return Check(NAME, Verdict.UNKNOWN, found, "Apply this hsconsole's patch and restart the server.")
        for rank, path in sorted(self._copies.items()):
            try:
                copy = states.read(numpy, Dump(path, -1))
            except (OSError, TensorProblem) as error:
                return Check(NAME, Verdict.UNKNOWN, f"the copy of rank {rank} can't be read: {error}")
            found_check = compare.same(numpy, NAME, copy, first, first.rows, f"{others + 1} ranks agree")
            if found_check.verdict is not Verdict.OK:
                return Check(NAME, found_check.verdict, f"rank {rank}: {found_check.found}", _REMEDY)
        return found_check

    def remove(self) -> None:
        """The copies, of all canaries that are over: one that still runs has named its request."""
        if self._target.tp > 1 and not os.path.exists(self._path):
            shutil.rmtree(os.path.join(self._target.dump_dir, ".ranks"), ignore_errors=True)

    def _wait(self, others: int) -> None:
        until = time.monotonic() + _WAIT_S
        while True:
            self._copies = self._find()
            if len(self._copies) >= others or time.monotonic() > until:
                return
            time.sleep(0.1)

    def _find(self) -> dict[int, str]:
        found: dict[int, str] = {}
        top = os.path.join(self._target.dump_dir, ".ranks")
        for count, (folder, names, files) in enumerate(os.walk(top)):
            if count > _MOST or folder.count(os.sep) - top.count(os.sep) >= _DEPTH:
                names.clear()
            rank = self._rank(folder) if "done" in files else None
            if rank is not None:
                found[rank] = folder
        return found

    def _rank(self, folder: str) -> Optional[int]:
        meta = metadata.read(folder)
        rank = meta.raw.get("tp_rank")
        named = meta.rid == self._wanted[0] or (meta.rid is None and meta.ids_sha256 == self._wanted[1])
        return rank if named and isinstance(rank, int) and rank > 0 else None
