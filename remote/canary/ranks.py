"""Rank 0 against the other ranks of a tensor-parallel group, which write a copy of a request that is named to them.

`<dump folder>/.canary` names it, by its rid and by the SHA-256 of its ids; the copies are dumps below
`<dump folder>/.ranks/<tp_rank>/`. See 'Other ranks' in docs/format.md.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any, Optional

from remote.dumps import meta as metadata
from remote.dumps.archive import TensorProblem
from remote.dumps.dump import Dump
from remote.dumps.files import read_small
from remote.dumps.rows import number_of
from remote.server.command import ranks_of_a_request
from remote.wire import locks
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

from . import compare, states
from .states import States

NAME = "ranks"
_WAIT_S = 10.0
_LOCK_S = 5.0  # for which another canary may write its names
_DEPTH = 3
_MOST = 10_000  # directories looked at
_LARGEST = 1 << 16  # bytes of `.canary` that are read
_FORGOTTEN_S = 600.0  # what is older is of a canary that was killed
_REMEDY = (
    "The ranks disagree: what is dumped are one rank's partial sums, or some ranks compute otherwise. Start without "
    "all-reduce fusion, with the patch of this hsconsole."
)


class Ranks:
    """One request for all ranks: name it before it is sent, withdraw it when it was answered.

    Several consoles may do so at once: each touches its own lines and copies alone.
    """

    def __init__(self, target: Target, rid: str, ids_sha256: str) -> None:
        self._target = target
        self._size = ranks_of_a_request(target)
        self._wanted = (rid, ids_sha256)
        self._path = os.path.join(target.dump_dir, ".canary")
        self._top = os.path.join(target.dump_dir, ".ranks")
        self._problem = ""
        self._copies: dict[int, str] = {}

    def name(self) -> None:
        if self._size > 1:
            self._write(self._wanted)

    def withdraw(self) -> None:
        if self._size > 1:
            self._write(())

    def _write(self, own: tuple[str, ...]) -> None:
        """Leave in the file `own` lines beside those of canaries that other consoles run."""
        try:
            with _locked(self._target.dump_dir):
                lines = [*self._others(), *own]
                if lines:
                    _replace(self._path, "\n".join(lines) + "\n")
                else:
                    os.unlink(self._path)
        except FileNotFoundError:
            pass  # there was nothing to withdraw
        except OSError as error:  # then no copy comes, and that is said
            self._problem = f"{self._path} can't be written: {error.strerror}"
            if not own:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)

    def _others(self) -> list[str]:
        try:
            lines = [] if _forgotten(self._path) else read_small(self._path, _LARGEST).decode("latin-1").split()
        except OSError:
            return []
        return [line for line in lines if line not in self._wanted]

    def check(self, numpy: Any, first: States) -> Check:
        """first: what rank 0 wrote."""
        others = self._size - 1
        if not others:
            return Check(NAME, Verdict.UNKNOWN, "one rank: nothing to compare with")
        self._wait(others)
        if len(self._copies) < others:
            found = f"{len(self._copies)} of {others} other ranks wrote their copy within {_WAIT_S:.0f} s"
            remedy = "" if self._problem else "Apply this hsconsole's patch and restart the server."
            return Check(NAME, Verdict.UNKNOWN, self._problem or found, remedy)
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
        """Its copies, those that were forgotten, and the whole folder when no other canary has anything there."""
        if self._size == 1:
            return
        with contextlib.suppress(OSError), _locked(self._target.dump_dir):
            left = False
            for folder in self._folders():
                if number_of(os.path.basename(folder)) is None:
                    continue
                if self._rank(folder) is not None or _forgotten(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    left = True
            if not left and not os.path.exists(self._path):
                shutil.rmtree(self._top, ignore_errors=True)

    def _wait(self, others: int) -> None:
        until = time.monotonic() + _WAIT_S
        while True:
            self._copies = self._find()
            if len(self._copies) >= others or time.monotonic() > until:
                return
            time.sleep(0.1)

    def _find(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for folder in self._folders():
            rank = self._rank(folder) if os.path.lexists(os.path.join(folder, "done")) else None
            if rank is not None:
                found[rank] = folder
        return found

    def _folders(self) -> Iterator[str]:
        """What lies below `.ranks`, not looked through to the end when that is very much."""
        top = "" if os.path.islink(self._top) else self._top  # a link is somebody else's, and so is what lies behind it
        for count, (folder, names, _) in enumerate(os.walk(top)):
            if count > _MOST or folder.count(os.sep) - self._top.count(os.sep) >= _DEPTH:
                names.clear()
            yield folder

    def _rank(self, folder: str) -> Optional[int]:
        meta = metadata.read(folder)
        rank = meta.raw.get("tp_rank")
        named = meta.rid == self._wanted[0] or (meta.rid is None and meta.ids_sha256 == self._wanted[1])
        return rank if named and isinstance(rank, int) and rank > 0 else None


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """The folder, against other canaries. Raises OSError, also where another one keeps it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not locks.take(handle, _LOCK_S):
            raise OSError(errno.EAGAIN, f"another process has locked the folder for {_LOCK_S:.0f} s")
        yield
    finally:
        os.close(handle)


def _replace(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    try:
        with open(temporary, "x", encoding="latin-1") as file:  # never through a link
            file.write(text)
        os.replace(temporary, path)
    except OSError:  # a full folder
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _forgotten(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > _FORGOTTEN_S
    except OSError:
        return False
