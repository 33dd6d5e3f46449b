"""Captured tensors on their way from the device to bytes that writer threads can read."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

import torch

from .archive import Tensor
from .problem import DumpFailure, Problem

_side_streams: dict[Any, Any] = {}


def keep(tensor: Any, rows: int) -> Any:
    """The first `rows` rows, copied on the tensor's device and in its stream: later kernels may reuse the original.

    Rows beyond are padding. Raises DumpFailure when there are fewer.
    """
    if tensor.shape[0] < rows:
        detail = f"{tensor.shape[0]} rows where the batch has {rows}"
        raise DumpFailure(Problem("the states of this pass are scattered across ranks", detail))
    return tensor.detach()[:rows].clone(memory_format=torch.contiguous_format)


class HostCopy:
    """Tensors of one pass, all with the same number of rows, in host memory; `wait` before reading them."""

    def __init__(self, tensors: dict[str, Any], ready: Optional[Any] = None) -> None:
        self._tensors = tensors
        self._ready = ready

    def rows(self, start: int, count: int) -> dict[str, Tensor]:
        """Rows of each tensor, without a copy; waits for the device. The caller keeps this object alive meanwhile."""
        if self._ready is not None:
            self._ready.synchronize()
        return {name: _view(name, tensor[start : start + count]) for name, tensor in self._tensors.items()}


def size_of(tensors: dict[str, Any]) -> int:
    """Bytes of all of them."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def start_copy(tensors: dict[str, Any]) -> HostCopy:
    """Begin to copy tensors made by `keep` to the host. On CUDA this returns at once."""
    device = next((tensor.device for tensor in tensors.values() if tensor.is_cuda), None)
    if device is None:
        return HostCopy({name: tensor.cpu() for name, tensor in tensors.items()})
    side = _side_stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        copies = {name: _to_pinned(tensor, side) for name, tensor in tensors.items()}
        ready = torch.cuda.Event()
        ready.record(side)
    return HostCopy(copies, ready)


def _side_stream(device: Any) -> Any:
    if device not in _side_streams:
        _side_streams[device] = torch.cuda.Stream(device)
    return _side_streams[device]


def _to_pinned(tensor: Any, stream: Any) -> Any:
    if not tensor.is_cuda:
        return tensor
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    pinned.copy_(tensor, non_blocking=True)
    tensor.record_stream(stream)
    return pinned


def _view(name: str, tensor: Any) -> Tensor:
    size = tensor.numel() * tensor.element_size()
    memory = (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""
    return Tensor(name, str(tensor.dtype).replace("torch.", ""), tuple(tensor.shape), memoryview(memory).cast("B"))
