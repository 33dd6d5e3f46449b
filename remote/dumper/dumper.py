"""The dumper of one process: decides which passes are dumped, and hands their requests to the writers."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any, Optional

import torch

from . import host, log, refusal, release
from .batch import ChunkRule, Segment, chunk_rule, split
from .budget import Budget, Lease
from .passes import Captured, Pass
from .problem import Problem, problem_of
from .request import Request
from .stats import Stats
from .writers import Writers

_BUDGET = 2 << 30  # bytes of captured states that may wait for the writers
_PATIENCE_S = 30.0  # how long the forward may wait for them; SGLang's watchdog gives it 300
_REQUEST_OVERHEAD = 64 << 10  # bounds the number of waiting requests, however small they are


@dataclasses.dataclass(frozen=True)
class Server:
    """What is asked of SGLang once, when the model first runs. writes: one process of a replica does.

    problem: why nothing of this server can be dumped.
    """

    writes: bool
    tp_rank: int
    tp_size: int
    hidden_size: Optional[int]
    rule: ChunkRule
    problem: Optional[Problem]


class Dumper:
    def __init__(self, layers: tuple[int, ...], problem: Optional[Problem], writers: Writers, stats: Stats) -> None:
        self._layers = layers
        self._problem = problem
        self._writers = writers
        self._stats = stats
        self._budget = Budget(_BUDGET)
        self._server: Optional[Server] = None
        self._lock = threading.Lock()
        self._told: Optional[tuple[Optional[str], int]] = None  # rid and end of the rows that last got an error

    def begin(self, model: Any, input_ids: Any, positions: Any, batch: Any) -> Optional[Pass]:
        """The pass that is to be dumped, None when there is nothing to dump in it. Never raises.

        Alike on every rank of a tensor-parallel group, because a capture may be a collective.
        """
        try:
            if batch.forward_mode.name in refusal.QUIET_MODES:
                return None
            return self._begin(self._ask(model), input_ids, positions, batch)
        except Exception as error:
            self._lost(error)
            return None

    def _begin(self, server: Server, input_ids: Any, positions: Any, batch: Any) -> Optional[Pass]:
        reason = _nobodys(batch, positions)
        if reason:
            self._skipped(server, reason, 1)
            return None
        segments = split(batch, server.rule)
        wanted = [segment for segment in segments if not segment.health_check]
        self._skipped(server, "health check", len(segments) - len(wanted))
        if not wanted:
            return None
        rows = segments[-1].start + segments[-1].rows
        problem = server.problem or refusal.of_pass(batch)
        inputs = Captured({}, problem)
        if server.writes:
            inputs = _inputs(batch.input_ids if input_ids is None else input_ids, positions, rows, problem)
        submit = functools.partial(self._submit, server, wanted)
        if problem is None and any(segment.problem is None for segment in wanted):
            return Pass(self._layers, rows, inputs, server.writes, submit)
        if server.writes:
            submit(inputs)
        return None

    def _ask(self, model: Any) -> Server:
        with self._lock:
            if self._server is None:
                rank, size = release.tp_rank_and_size()
                problem = self._problem or refusal.of_server(model, self._layers)
                writes = rank == 0 and release.pp_rank_and_size(model)[0] == 0
                self._server = Server(writes, rank, size, release.hidden_size(model), chunk_rule(), problem)
                if problem is not None:
                    log.say(f"REFUSED: {problem.cause}: {problem.detail}")
                    self._stats.refused(problem.cause)
            return self._server

    def _skipped(self, server: Server, reason: str, count: int) -> None:
        if server.writes and count:
            self._stats.skipped(reason, count)

    def _submit(self, server: Server, segments: Sequence[Segment], captured: Captured) -> None:
        """Queue the requests of a pass, with their states or their errors. Never raises."""
        try:
            segments = [segment for segment in segments if not self._already_told(segment)]
            if segments:
                self._queue(server, segments, captured)
        except Exception as error:
            self._lost(error)

    def _queue(self, server: Server, segments: Sequence[Segment], captured: Captured) -> None:
        copy, problem, lease = self._copied(captured, len(segments))
        for segment in segments:
            self._writers.put(
                Request(
                    rid=segment.rid,
                    rows=segment.rows,
                    prefix=segment.prefix,
                    hidden_size=server.hidden_size,
                    tp_rank=server.tp_rank,
                    tp_size=server.tp_size,
                    tensors=functools.partial(copy.rows, segment.start, segment.rows),
                    release=lease.release,
                    problem=problem or segment.problem,
                )
            )

    def _copied(self, captured: Captured, requests: int) -> tuple[host.HostCopy, Optional[Problem], Lease]:
        """Start the copy to the host within the budget. With a problem, only the ids are worth it."""
        tensors, problem = captured.tensors, captured.problem
        if problem is not None:
            tensors = {name: tensor for name, tensor in tensors.items() if name == "input_ids"}
        size = host.size_of(tensors) + _REQUEST_OVERHEAD * requests
        lease = Lease(self._budget, size, requests)
        if not lease.take(_PATIENCE_S):
            detail = f"{size:,} bytes waited {_PATIENCE_S:.0f} s. See whether the dump folder still answers"
            return host.HostCopy({}), Problem("the writers do not keep up with the server", detail), lease
        try:
            return host.start_copy(tensors), problem, lease
        except Exception as error:
            return host.HostCopy({}), problem or problem_of(error), lease

    def _lost(self, error: Exception) -> None:
        problem = problem_of(error)
        log.once(f"a pass could not be dumped: {problem.cause}", problem.detail)
        self._stats.failed(problem.cause)

    def _already_told(self, segment: Segment) -> bool:
        """Whether these rows go on where an error ended: a later chunk of a prompt that was refused already."""
        continues = self._told is not None and self._told == (segment.rid, segment.prefix)
        if segment.problem is not None:
            self._told = (segment.rid, segment.prefix + segment.rows)
        return continues


def _nobodys(batch: Any, positions: Any) -> str:
    """Why a pass holds no requests of anybody, or none that could be told apart; empty when it does."""
    mode = batch.forward_mode.name
    if mode != "EXTEND":
        log.once(refusal.of_mode(mode))
        return f"{mode} pass"
    if positions.is_cuda and torch.cuda.is_current_stream_capturing():
        log.once("a CUDA graph of prefill is being recorded; passes replayed from it are not dumped")
        return "graph recording"
    if getattr(batch, "rids", release.MISSING) is None:
        return "warm-up without request"
    return ""


def _inputs(ids: Any, positions: Any, rows: int, problem: Optional[Problem]) -> Captured:
    """Ids and positions of a pass, without raising: what fails here fails on one rank only."""
    try:
        tensors = {"input_ids": host.keep(ids, rows).to(torch.int64)}
        if positions.dim() == 1:  # else they are those of images and say nothing about rows
            tensors["positions"] = host.keep(positions, rows).to(torch.int64)
        return Captured(tensors, problem)
    except Exception as error:
        return Captured({}, problem or problem_of(error))
