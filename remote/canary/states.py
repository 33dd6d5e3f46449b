"""The tensors of a dump as numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

from remote.dumps import content
from remote.dumps.archive import TensorProblem
from remote.dumps.dump import Dump

MOST_ROWS = 2048  # of a long dump that are looked at, the first ones


@dataclasses.dataclass(frozen=True)
class States:
    """tensors: aux_0.pt …, final.pt as float32 arrays [rows, hidden], the first MOST_ROWS. dtype: of the dump."""

    tensors: dict[str, Any]
    dtype: str

    @property
    def rows(self) -> int:
        return min((len(values) for values in self.tensors.values()), default=0)

    @property
    def columns(self) -> dict[str, int]:
        """By the tensor's name."""
        return {name: int(values.shape[1]) for name, values in self.tensors.items()}


def read(numpy: Any, dump: Dump) -> States:
    """Raises OSError and TensorProblem when a tensor is missing, unlike the others, or can't be read."""
    tensors: dict[str, Any] = {}
    dtypes = {tensor.dtype for tensor in dump.hidden.values()}
    missing = [name for name in dump.meta.hidden_names if name not in dump.hidden]
    if missing or len(dtypes) != 1 or not dtypes <= set(content.FLOATS):
        raise TensorProblem(f"its tensors can't be compared: {', '.join(missing) or sorted(dtypes)}")
    for name, tensor in dump.hidden.items():
        if tensor.wanted != tensor.payload or len(tensor.shape) != 2:
            raise TensorProblem(f"the payload of {name} is not its rows")
        data = tensor.rows_at(0, min(tensor.rows, MOST_ROWS))
        tensors[name] = content.floats(numpy, data, tensor.dtype).reshape(-1, tensor.shape[1])
    return States(tensors, dtypes.pop())
