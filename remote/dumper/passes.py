"""One forward pass that is being dumped: what the hooks of the patched model file talk to."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional

from . import host
from .problem import Problem, problem_of

_OWED = "_sglang_needs_allreduce_fusion"


@dataclasses.dataclass(frozen=True)
class Captured:
    """tensors: aux_0 …, final, input_ids, positions, as `host.keep` made them; not all, when there is a problem."""

    tensors: dict[str, Any]
    problem: Optional[Problem]


class Pass:
    """layers: those before which the model calls `capture`. rows: of all requests. inputs: input_ids and positions.
    writes: whether this rank keeps what it captures. submit: takes what was captured; never raises.

    Every rank evaluates every capture, for it may be a collective; what goes wrong is kept for the requests' errors.
    """

    def __init__(
        self,
        layers: tuple[int, ...],
        rows: int,
        inputs: Captured,
        writes: bool,
        submit: Callable[[Captured], None],
    ) -> None:
        self.layers = frozenset(layers)
        self._order = layers
        self._rows = rows
        self._tensors = inputs.tensors
        self._problem = inputs.problem
        self._writes = writes
        self._submit = submit

    def capture(self, layer: int, make: Callable[[], Any]) -> None:
        """Keep what `make` returns, `[rows, hidden]`: the residual stream before `layer`. Never raises."""
        try:
            owed = _owed(make)
            value = make()
            if not self._writes or self._problem is not None:
                return
            if owed:
                self._problem = Problem(
                    "the states before a layer are sums of one rank only: the all-reduce was deferred (fused)",
                    f"before layer {layer}. Start without all-reduce fusion",
                )
            else:
                self._tensors[f"aux_{self._order.index(layer)}"] = host.keep(value, self._rows)
        except Exception as error:
            self._problem = self._problem or problem_of(error)

    def finish(self, final: Any) -> None:
        """Hand the requests of the pass over. final: `[rows, hidden]`, output of the final norm. Never raises."""
        if not self._writes:
            return
        try:
            if self._problem is None:
                self._tensors["final"] = host.keep(final, self._rows)
                self._problem = self._missing()
        except Exception as error:
            self._problem = problem_of(error)
        self._submit(Captured(self._tensors, self._problem))

    def _missing(self) -> Optional[Problem]:
        missing = [layer for at, layer in enumerate(self._order) if f"aux_{at}" not in self._tensors]
        if not missing:
            return None
        return Problem("the pass did not go through all layers", f"layers {missing} were not seen by the layer loop")


def _owed(make: Callable[[], Any]) -> bool:
    """Whether a tensor that `make` refers to still waits for its all-reduce (0.5.20 and older mark it)."""
    cells = getattr(make, "__closure__", None) or ()
    return any(getattr(cell.cell_contents, _OWED, False) for cell in cells)
