"""Stands in for sgl_kernel, SGLang's compiled kernels, which have no build for every CPU.

SGLang imports it unconditionally. A CPU server with torch_native attention calls one function of it, written here
in plain torch; any other name imports and raises when called, so nothing is ever computed wrongly in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__version__ = "0+stand.in"


def assign_req_to_token_pool_cpu(
    req_pool_indices: Any, req_to_token: Any, start_offset: Any, end_offset: Any, out_cache_loc: Any, *_: Any
) -> None:
    """Write the cache locations of each request into its row of `req_to_token`, from its start to its end offset."""
    taken = 0
    for row, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True):
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[taken : taken + count].to(req_to_token.dtype)
        taken += count


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name} has no CPU stand-in in hsconsole's demo")

    missing.__name__ = name
    return missing
