"""One request as it is written: a directory with its tensors and metadata, or with the reason why it has none."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional

from . import log
from .archive import FRAMING, Tensor, TensorFile, Written
from .folder import Folder
from .problem import DumpFailure, Problem, problem_of
from .room import Room

_SMALL_FILES = 64 << 10  # meta.json, done, and the directory itself


@dataclasses.dataclass(frozen=True)
class Origin:
    """What is alike for all requests of this process."""

    boot_id: str
    pid: int
    layers: tuple[int, ...]
    sglang_version: str
    dumper_version: str
    dumper_digest: str


@dataclasses.dataclass(frozen=True)
class Rank:
    """The process of a replica that writes, and the model's hidden size where the model tells it."""

    tp_rank: int
    tp_size: int
    hidden_size: Optional[int]


@dataclasses.dataclass(frozen=True)
class Desk:
    """Where requests are written, and in whose name."""

    folder: Folder
    room: Room
    origin: Origin


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows of a request that went through one pass: all of a prompt, or a chunk. first: position of the first.

    tensors: aux_0 …, final, input_ids and, where known, positions; with a problem, input_ids at most.
    release: to be called when they have been read.
    """

    rows: int
    first: int
    tensors: Mapping[str, Tensor]
    release: Callable[[], None]
    problem: Optional[Problem] = None


class Writing:
    """A request on its way: `add` its parts in their order, then `finish` or `give_up`. One thread at a time."""

    def __init__(self, desk: Desk, rid: Optional[str], rank: Rank) -> None:
        self._desk = desk
        self._rid = rid
        self._rank = rank
        self._number: Optional[int] = None
        self._aside: Optional[str] = None
        self._files: dict[str, TensorFile] = {}
        self._problem: Optional[Problem] = None
        self._ids = hashlib.sha256()
        self._hashed = 0
        self._rows = 0
        self._first = 0

    def add(self, part: Part) -> None:
        """Write a part. Never raises: what fails is kept for `finish`."""
        try:
            self._note(part)
            if part.problem is not None:
                raise DumpFailure(part.problem)
            if self._problem is None:
                self._append(part)
        except Exception as error:
            self._fail(problem_of(error))
        finally:
            part.release()

    def finish(self) -> Optional[Problem]:
        """Publish the request whole, or its error. Returns the problem, None when it was dumped. Raises OSError when
        not even the error could be written; nothing of the request is left then."""
        if self._problem is None:
            try:
                self._complete()
            except Exception as error:
                self._fail(problem_of(error))
        if self._problem is not None:
            log.once(f"a request was not dumped: {self._problem.cause}", self._problem.detail)
            self._explain(self._problem)
        return self._problem

    def give_up(self, problem: Problem) -> Optional[Problem]:
        """As `finish`, for a request of which no more will come."""
        self._fail(problem)
        return self.finish()

    def _note(self, part: Part) -> None:
        if self._rows == 0:
            self._first = part.first
        self._rows += part.rows
        ids = part.tensors.get("input_ids")
        if ids is not None:
            self._ids.update(ids.data)
            self._hashed += part.rows

    def _append(self, part: Part) -> None:
        _expect_positions(part)
        if self._number is None:
            self._number = self._desk.folder.claim()
        if self._aside is None:
            self._aside = self._desk.folder.aside(self._number)
        tensors = [tensor for name, tensor in part.tensors.items() if name != "positions"]
        need = sum(tensor.data.nbytes + FRAMING for tensor in tensors) + _SMALL_FILES
        with self._desk.room.promise(need) as account:
            for tensor in tensors:
                if tensor.name not in self._files:
                    self._files[tensor.name] = TensorFile(self._aside, tensor)
                account(self._files[tensor.name].append(tensor))

    def _complete(self) -> None:
        if self._aside is None or self._number is None:
            raise DumpFailure(Problem("no rows of this request came"))
        written = {f"{name}.pt": file.finish() for name, file in self._files.items()}
        final = written["final.pt"]
        meta = {**self._meta(), "hidden_size": final.shape[1], "dtype": final.dtype}
        meta["files"] = {name: _described(one) for name, one in written.items()}
        _write_json(self._aside, "meta.json", meta)
        _write(self._aside, "done", b"")
        self._desk.folder.publish(self._aside, self._number)

    def _fail(self, problem: Problem) -> None:
        """Keep the first problem, and give the room back at once."""
        self._problem = self._problem or problem
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()
        self._files.clear()
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)
            self._aside = None

    def _explain(self, problem: Problem) -> None:
        if self._number is None:
            self._number = self._desk.folder.claim()
        aside = self._desk.folder.aside(self._number)
        try:
            _write_json(aside, "meta.json", self._meta())
            _write_json(aside, "error", {"cause": problem.cause, "detail": problem.detail})
            self._desk.folder.publish(aside, self._number)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _meta(self) -> dict[str, Any]:
        origin, rank = self._desk.origin, self._rank
        return {
            "num_tokens": self._rows,
            "hidden_size": rank.hidden_size,
            "num_aux_layers": len(origin.layers),
            "captured_at_layers": list(origin.layers),
            "counter": self._number,
            "timestamp": time.time(),
            "schema": 3,
            "eagle_layer_ids": [layer - 1 for layer in origin.layers],
            "boot_id": origin.boot_id,
            "pid": origin.pid,
            "tp_rank": rank.tp_rank,
            "tp_size": rank.tp_size,
            "rid": self._rid,
            "ids_sha256": self._ids.hexdigest() if self._hashed == self._rows else None,
            "first_position": self._first,
            "last_position": self._first + self._rows - 1,
            "final_norm": "post",
            "sglang_version": origin.sglang_version,
            "dumper_version": origin.dumper_version,
            "dumper_digest": origin.dumper_digest,
        }


def _expect_positions(part: Part) -> None:
    """The rows must be what the batch said they are: in order, from the first position on."""
    positions = part.tensors.get("positions")
    if positions is None:
        return
    found = positions.data.cast("B").cast("q")
    want = range(part.first, part.first + part.rows)
    if len(found) != len(want) or (want and (found[0] != want[0] or found[-1] != want[-1])):
        detail = f"{len(found)} positions from {found[0]} to {found[-1]}, {len(want)} from {part.first} expected"
        raise DumpFailure(Problem("the rows of this request are not where the batch says they are", detail))


def _described(written: Written) -> dict[str, Any]:
    return {
        "bytes": written.size,
        "payload": written.payload,
        "crc32": written.crc32,
        "shape": list(written.shape),
        "dtype": written.dtype,
    }


def _write_json(folder: str, name: str, value: dict[str, Any]) -> None:
    _write(folder, name, json.dumps(value).encode("ascii"))


def _write(folder: str, name: str, content: bytes) -> None:
    with open(os.path.join(folder, name), "xb") as file:
        file.write(content)
