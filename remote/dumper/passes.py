"""One forward pass that is being dumped: what the hooks of the patched model file talk to."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Callable, Optional

import torch

from . import reduction
from .batch import Segment
from .host import HostCopy
from .pool import Loan
from .problem import DumpFailure, Problem, problem_of


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a pass got. rows: of all its requests; `ids` and `positions` may have more, as padding.

    totals: the whole length of each prompt, where the release tells. Tensors, to be copied before the next pass.
    """

    segments: Sequence[Segment]
    rows: int
    ids: Any
    positions: Any
    totals: Optional[Any]

    def complete(self, copy: HostCopy) -> None:
        """Add them to what was captured, and nothing more."""
        try:
            copy.add("input_ids", self.ids.to(torch.int64), self.rows)
            if self.positions.dim() == 1:  # else they are those of images and say nothing about rows
                copy.add("positions", self.positions.to(torch.int64), self.rows)
            if self.totals is not None:
                copy.add("totals", self.totals, len(self.segments))
        finally:
            copy.seal()


@dataclasses.dataclass(frozen=True)
class Taken:
    """A pass as the forward left it. copy: aux_0 …, final and the inputs; with a problem, the inputs at most.

    mixed: some of its requests may be decoded ones, which are none of ours.
    """

    segments: Sequence[Segment]
    copy: Optional[HostCopy]
    loan: Optional[Loan]
    problem: Optional[Problem]
    mixed: bool = False


@dataclasses.dataclass(frozen=True)
class Keeping:
    """How what a pass captures is kept. names: of all tensors that are expected.

    lend: memory for the pass, by the bytes of one tensor's row. submit: takes what was captured and the seconds that
    this took; never raises.
    """

    inputs: Inputs
    names: Sequence[str]
    lend: Callable[[int], Loan]
    submit: Callable[[Taken, float], None]


class Pass:
    """layers: those before which the model calls `capture`. keeping: None in a rank that has nothing to write.

    Every rank evaluates every capture, for it may be a collective; what goes wrong is kept for the requests' errors.
    """

    def __init__(self, layers: Sequence[int], keeping: Optional[Keeping]) -> None:
        self.layers = frozenset(layers)
        self._order = list(layers)
        self._keeping = keeping
        self._loan: Optional[Loan] = None
        self._copy: Optional[HostCopy] = None
        self._kept: set[str] = set()
        self._problem: Optional[Problem] = None
        self._ended = False
        self.seconds = 0.0  # of the forward's thread, spent on this pass

    stream = staticmethod(reduction.stream)

    def capture(self, layer: int, make: Callable[[], Any]) -> None:
        """Keep what `make` returns, `[rows, hidden]`: the residual stream before `layer`. Never raises."""
        self._keep(f"aux_{self._order.index(layer)}", make)

    def before_norm(self, make: Callable[[], Any]) -> None:
        """Keep the residual stream behind the last layer. Never raises."""
        self._keep("final_prenorm", make)

    def finish(self, final: Any) -> None:
        """Hand the requests of the pass over. final: `[rows, hidden]`, output of the final norm. Never raises."""
        self._keep("final", lambda: final)
        self._end(None)

    def abandon(self) -> None:
        """The model went on to another pass: nothing when this one is finished, else its requests get an error."""
        self._end(Problem("the pass did not come to its end", "the model left it between the layers and the norm"))

    def _end(self, problem: Optional[Problem]) -> None:
        if self._ended:
            return
        self._ended = True
        keeping = self._keeping
        if keeping is None:
            return
        start = time.perf_counter()
        try:
            self._problem = self._problem or problem
            self._complete(keeping)
        except Exception as error:
            self._problem = self._problem or problem_of(error)
        seconds = self.seconds + time.perf_counter() - start
        keeping.submit(Taken(keeping.inputs.segments, self._copy, self._loan, self._problem), seconds)

    def _keep(self, name: str, make: Callable[[], Any]) -> None:
        start = time.perf_counter()
        try:
            value = make()
            if self._keeping is not None and self._problem is None and not self._ended:
                _expect_own_rows(value, self._keeping.inputs)
                self._memory(self._keeping, value).add(name, value, self._keeping.inputs.rows)
                self._kept.add(name)
        except Exception as error:
            self._problem = self._problem or problem_of(error)
        self.seconds += time.perf_counter() - start

    def _memory(self, keeping: Keeping, value: Any) -> HostCopy:
        if self._copy is None:
            self._loan = keeping.lend(value.element_size() * value.shape[-1])
            self._copy = HostCopy(self._loan)
        return self._copy

    def _complete(self, keeping: Keeping) -> None:
        if self._copy is None:
            return
        keeping.inputs.complete(self._copy)
        missing = [name for name in keeping.names if name not in self._kept]
        if missing and self._problem is None:
            detail = f"{', '.join(missing)} of layers {self._order} were not seen by the layer loop"
            raise DumpFailure(Problem("the pass did not go through all layers", detail))


def _expect_own_rows(value: Any, inputs: Inputs) -> None:
    """Rows come one for one with ids and padding; more of them would be those of other ranks, and perhaps in front."""
    if value.shape[0] > inputs.ids.shape[0]:
        detail = f"{value.shape[0]} rows where the batch has {inputs.ids.shape[0]}"
        raise DumpFailure(Problem("the states of this pass are gathered from several ranks", detail))
