"""One request as it is written: a directory with its tensors and metadata, or with the reason why it has none."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import time
from typing import Any, Callable, Optional

from . import archive, log
from .archive import Tensor
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
class Request:
    """A request ready to be written.

    rows: how many of it were in the pass. prefix: position of the first of them.
    tensors: aux_0 …, final, input_ids, positions; called in a writer thread, it may wait for the device. Without a
    problem all are there; with one, at most input_ids. release: gives their memory back.
    """

    rid: Optional[str]
    rows: int
    prefix: int
    hidden_size: Optional[int]
    tp_rank: int
    tp_size: int
    tensors: Callable[[], dict[str, Tensor]]
    release: Callable[[], None]
    problem: Optional[Problem] = None


class Recorder:
    def __init__(self, folder: Folder, room: Room, origin: Origin) -> None:
        self._folder = folder
        self._room = room
        self._origin = origin

    def write(self, request: Request) -> Optional[Problem]:
        """Publish `request` whole, or its error. Returns the problem, None when it was dumped. Raises OSError when
        not even the error could be written; nothing of the request is left then."""
        number = self._folder.claim()
        problem = request.problem
        if problem is None:
            try:
                self._publish(number, lambda aside: self._fill(aside, number, request))
                return None
            except Exception as error:
                problem = problem_of(error)
        log.once(f"a request was not dumped: {problem.cause}", problem.detail)
        self._publish(number, lambda aside: self._explain(aside, number, request, problem))
        return problem

    def _publish(self, number: int, fill: Callable[[str], None]) -> None:
        aside = self._folder.aside(number)
        try:
            fill(aside)
            self._folder.publish(aside, number)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _fill(self, aside: str, number: int, request: Request) -> None:
        tensors = request.tensors()
        _expect_positions(tensors.pop("positions", None), request)
        need = sum(tensor.data.nbytes + archive.FRAMING for tensor in tensors.values()) + _SMALL_FILES
        files: dict[str, Any] = {}
        with self._room.promise(need) as account:
            for tensor in tensors.values():
                written = archive.save(aside, tensor)
                account(written.size)
                files[f"{tensor.name}.pt"] = _described(tensor, written)
            meta = self._meta(number, request, tensors.get("input_ids"))
            meta["hidden_size"] = tensors["final"].shape[1]
            meta["dtype"] = tensors["final"].dtype
            meta["files"] = files
            _write_json(aside, "meta.json", meta)
            _write(aside, "done", b"")

    def _explain(self, aside: str, number: int, request: Request, problem: Problem) -> None:
        try:
            ids = request.tensors().get("input_ids")
        except Exception:
            ids = None  # the reason to be written is older than this one
        _write_json(aside, "meta.json", self._meta(number, request, ids))
        _write_json(aside, "error", {"cause": problem.cause, "detail": problem.detail})

    def _meta(self, number: int, request: Request, ids: Optional[Tensor]) -> dict[str, Any]:
        origin = self._origin
        return {
            "num_tokens": request.rows,
            "hidden_size": request.hidden_size,
            "num_aux_layers": len(origin.layers),
            "captured_at_layers": list(origin.layers),
            "counter": number,
            "timestamp": time.time(),
            "schema": 3,
            "eagle_layer_ids": [layer - 1 for layer in origin.layers],
            "boot_id": origin.boot_id,
            "pid": origin.pid,
            "tp_rank": request.tp_rank,
            "tp_size": request.tp_size,
            "rid": request.rid,
            "ids_sha256": hashlib.sha256(ids.data).hexdigest() if ids else None,
            "first_position": request.prefix,
            "last_position": request.prefix + request.rows - 1,
            "final_norm": "post",
            "sglang_version": origin.sglang_version,
            "dumper_version": origin.dumper_version,
            "dumper_digest": origin.dumper_digest,
        }


def _expect_positions(positions: Optional[Tensor], request: Request) -> None:
    """The rows must be what the batch said they are: in order, from the first position on."""
    if positions is None:
        return
    found = positions.data.cast("B").cast("q")
    want = range(request.prefix, request.prefix + request.rows)
    if len(found) != len(want) or (want and (found[0] != want[0] or found[-1] != want[-1])):
        detail = f"{len(found)} positions from {found[0]} to {found[-1]}, {len(want)} from {request.prefix} expected"
        raise DumpFailure(Problem("the rows of this request are not where the batch says they are", detail))


def _described(tensor: Tensor, written: archive.Written) -> dict[str, Any]:
    return {
        "bytes": written.size,
        "payload": written.payload,
        "crc32": written.crc32,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
    }


def _write_json(folder: str, name: str, value: dict[str, Any]) -> None:
    _write(folder, name, json.dumps(value).encode("ascii"))


def _write(folder: str, name: str, content: bytes) -> None:
    with open(os.path.join(folder, name), "xb") as file:
        file.write(content)
