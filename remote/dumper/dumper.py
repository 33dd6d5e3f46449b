"""The dumper of one process: decides which passes are dumped, and hands what was captured over to the assembly."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from typing import Any, Callable, Optional

import torch

from . import attention, host, log, prenorm, refusal, release
from .assembly import Assembly
from .batch import mode, prompt_lengths, split
from .passes import Inputs, Keeping, Pass, Taken
from .pool import Loan, Pool
from .problem import DumpFailure, Problem, problem_of
from .request import Desk, Rank
from .selection import Selection
from .settings import Settings
from .stats import Stats
from .writers import Writers

_PATIENCE_S = 30.0  # how long the forward may wait for the writers; SGLang's watchdog gives it 300
_REQUEST_OVERHEAD = 64 << 10  # bounds the number of waiting requests, however small they are


@dataclasses.dataclass(frozen=True)
class Server:
    """What is asked of SGLang once, when the model first runs. writes: one process of those that share requests does.

    mixed: passes of prefill may hold decoded rows. shared: ranks with requests of their own compute layers together.
    problem: why nothing of this server can be dumped.
    """

    writes: bool
    mixed: bool
    shared: bool
    assembly: Assembly
    problem: Optional[Problem]


class Dumper:
    """desks: where requests are written, by whether this process is the one of its replica that writes; other ranks
    have a place of their own. tell: says in `.loaded` why nothing can be dumped."""

    def __init__(
        self,
        settings: Settings,
        desks: Callable[[bool, int], Desk],
        writers: Writers,
        stats: Stats,
        tell: Callable[[Problem], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._layers = settings.layers
        self._names = [*(f"aux_{at}" for at in range(len(settings.layers))), *settings.finals]
        self._desks = desks
        self._writers = writers
        self._stats = stats
        self._tell = tell
        self._pool = Pool(settings.pool)
        self._patience = _PATIENCE_S
        self._selection = Selection(settings.folder)
        self._server: Optional[Server] = None
        self._problem = Problem("the settings of the dumper are wrong", settings.problem) if settings.problem else None
        self._refused: Optional[Problem] = None
        self._running: Optional[Pass] = None
        self._lock = threading.Lock()

    def prepare(self, device: Any) -> None:
        """Before the weights are loaded: refuse what can't be dumped, and allocate the pool beside the load."""
        self._refuse(self._problem or refusal.of_options())
        if _writes() and self._refused is None:
            threading.Thread(target=self._warm, args=(device.type == "cuda",), name="hs-dump-pool", daemon=True).start()

    def begin(self, model: Any, input_ids: Any, positions: Any, batch: Any) -> Optional[Pass]:
        """The pass that is to be dumped, None when there is nothing to dump in it. Never raises.

        Alike on every rank of a tensor-parallel group, because a capture may be a collective: with data-parallel
        attention a rank gets a pass to capture in whenever any of them prefills.
        """
        begun: Optional[Pass] = None
        together = attention.prefills_somewhere(batch)
        try:
            if self._running is not None:
                self._running.abandon()
                self._running = None
            prefills = mode(batch) not in refusal.QUIET_MODES
            if not (prefills or together):
                return None
            server = self._ask(model)
            together = together and server.shared
            if prefills:
                begun = self._begin(server, model, input_ids, positions, batch)
        except Exception as error:
            self._lost(error)
        if begun is None and together:
            prenorm.expect(model.norm, None)
            return Pass(self._layers, None)
        return begun

    def _begin(self, server: Server, model: Any, input_ids: Any, positions: Any, batch: Any) -> Optional[Pass]:
        start = time.perf_counter()
        reason = _nobodys(batch, positions)
        if reason:
            self._skipped(server, reason, 1)
            return None
        segments = split(batch)
        checks = sum(segment.health_check for segment in segments)
        self._skipped(server, "health check", checks)
        if checks == len(segments):
            return None
        rows = segments[-1].start + segments[-1].rows
        ids = batch.input_ids if input_ids is None else input_ids
        inputs = Inputs(segments, rows, ids, positions, prompt_lengths(batch))
        writes = server.writes or self._selection.any()
        mixed = server.mixed or batch.forward_mode.name == "MIXED"
        problem = server.problem or refusal.of_pass(batch, server.shared)
        if problem is not None:
            if server.writes:
                self._submit(server, self._without_states(inputs, problem, mixed), 0.0)
            return None
        lend = functools.partial(self._lend, inputs)
        keeping = Keeping(inputs, self._names, lend, functools.partial(self._submit, server))
        begun = Pass(self._layers, keeping if writes else None)
        prenorm.expect(model.norm, begun if self._settings.prenorm else None)
        begun.seconds = time.perf_counter() - start
        self._running = begun
        return begun

    def _ask(self, model: Any) -> Server:
        with self._lock:
            if self._server is None:
                rank, size = release.tp_rank_and_size()
                writes = _writes() and release.pp_rank_and_size(model)[0] == 0
                self._refuse(self._problem or refusal.of_options() or refusal.of_model(model, self._layers))
                if not writes or self._refused is not None:
                    self._pool = Pool(0)  # a canary's few passes, or ids alone, get memory of their own
                desk = self._desks(writes, rank)
                takes = (lambda *_: True) if writes else self._selection.takes
                ended = self._stats.ended if writes else (lambda _: None)
                about = Rank(rank, size, release.hidden_size(model))
                assembly = Assembly(desk, about, self._writers, takes, ended)
                mixed = release.option("enable_mixed_chunk") is True  # 0.5.23 calls such passes plain prefill
                shared = attention.asked() and self._refused is None
                self._server = Server(writes, mixed, shared, assembly, self._refused)
            return self._server

    def _refuse(self, problem: Optional[Problem]) -> None:
        if problem is None or self._refused is not None:
            return
        self._refused = problem
        log.say(f"REFUSED, nothing will be dumped: {problem.cause}: {problem.detail}")
        self._stats.refused(problem.cause)
        self._tell(problem)

    def _warm(self, pin: bool) -> None:
        start = time.monotonic()
        try:
            self._pool.warm(pin)
        except Exception as error:
            log.say(f"no memory for the pool, requests get errors until there is some: {problem_of(error).detail}")
            return
        log.say(f"pool of {self._settings.pool >> 20} MiB is ready after {time.monotonic() - start:.1f} s")

    def _lend(self, inputs: Inputs, row: int) -> Loan:
        """Memory for all tensors of a pass. row: bytes of one row of one of them."""
        count = len(self._names)
        size = count * host.size_of(inputs.rows * row) + _size_of_inputs(inputs)
        loan = self._memory(size, inputs)
        if loan is None:
            detail = f"{size:,} bytes waited {_PATIENCE_S:.0f} s. See whether the dump folder still answers"
            raise DumpFailure(Problem("the writers do not keep up with the server", detail))
        return loan

    def _memory(self, size: int, inputs: Inputs) -> Optional[Loan]:
        """None where it was waited for in vain: writers that hang cost the server one wait, not one for each pass."""
        start = time.perf_counter()
        loan = self._pool.lend(size, inputs.ids.is_cuda, self._patience)
        self._stats.waited(time.perf_counter() - start)
        self._patience = 0.0 if loan is None else _PATIENCE_S
        return loan

    def _without_states(self, inputs: Inputs, problem: Problem, mixed: bool) -> Taken:
        """The ids alone, which tell whose the error is."""
        try:
            loan = self._memory(_size_of_inputs(inputs), inputs)
        except DumpFailure:  # there is no memory
            loan = None
        if loan is None:
            return Taken(inputs.segments, None, None, problem, mixed)
        copy = host.HostCopy(loan)
        try:
            inputs.complete(copy)
        except Exception as error:
            log.once(f"the ids of a refused request are not known: {problem_of(error).cause}")
        return Taken(inputs.segments, copy, loan, problem, mixed)

    def _submit(self, server: Server, taken: Taken, seconds: float) -> None:
        try:
            server.assembly.put(taken)
            if server.writes:
                self._stats.passed(seconds, len(taken.segments))
        except Exception as error:
            self._lost(error)

    def _skipped(self, server: Server, reason: str, count: int) -> None:
        if server.writes and count:
            self._stats.skipped(reason, count)

    def _lost(self, error: Exception) -> None:
        problem = problem_of(error)
        log.once(f"a pass could not be dumped: {problem.cause}", problem.detail)
        self._stats.failed(problem.cause)


def _writes() -> bool:
    return release.attention_rank() == 0


def _size_of_inputs(inputs: Inputs) -> int:
    return 2 * host.size_of(inputs.rows * 8) + _REQUEST_OVERHEAD * len(inputs.segments)


def _nobodys(batch: Any, positions: Any) -> str:
    """Why a pass holds no requests of anybody, or none that could be told apart; empty when it does."""
    name = mode(batch)
    if name not in ("EXTEND", "MIXED"):
        log.once(refusal.of_mode(name))
        return f"{name} pass"
    if positions.is_cuda and torch.cuda.is_current_stream_capturing():
        log.once("a CUDA graph of prefill is being recorded; passes replayed from it are not dumped")
        return "graph recording"
    if getattr(batch, "rids", release.MISSING) is None:
        return "warm-up without request"
    return ""
