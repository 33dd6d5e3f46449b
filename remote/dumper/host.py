"""Captured tensors on their way from the device to bytes that other threads can read."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

import torch

from .archive import Tensor
from .pool import Loan
from .problem import DumpFailure, Problem

_ALIGNMENT = 512
_side_streams: dict[Any, Any] = {}


def size_of(payload: int) -> int:
    """Bytes that a tensor of `payload` bytes takes in a loan."""
    return -(-payload // _ALIGNMENT) * _ALIGNMENT


class HostCopy:
    """Tensors of one pass in memory that was lent for them: `add` them in the forward, `seal`, `wait` elsewhere."""

    def __init__(self, loan: Loan) -> None:
        self._memory = loan.memory
        self._used = 0
        self._tensors: dict[str, Any] = {}
        self._device: Optional[Any] = None
        self._ready: Optional[Any] = None

    def add(self, name: str, tensor: Any, rows: int) -> None:
        """Begin to copy the first `rows` rows; those beyond are padding. What happens to the original later is of no
        matter. On CUDA this returns at once. Raises DumpFailure when there are fewer rows."""
        if tensor.shape[0] < rows:
            detail = f"{tensor.shape[0]} rows where the batch has {rows}"
            raise DumpFailure(Problem("the states of this pass are scattered across ranks", detail))
        wanted = tensor.detach()[:rows]
        piece = self._piece(wanted)
        if wanted.is_cuda:
            self._device = wanted.device
            _copy_aside(wanted, piece)
        else:
            piece.copy_(wanted)
        self._tensors[name] = piece

    def seal(self) -> None:
        """Nothing is added from now on."""
        if self._device is not None:
            self._ready = torch.cuda.Event(blocking=True)
            self._ready.record(_side_stream(self._device))

    def wait(self) -> dict[str, Any]:
        """The tensors, when the device is done. They live as long as the loan."""
        if self._ready is not None:
            self._ready.synchronize()
        return self._tensors

    def _piece(self, tensor: Any) -> Any:
        size = tensor.numel() * tensor.element_size()
        start = self._used
        self._used += size_of(size)
        if self._used > self._memory.numel():
            raise DumpFailure(
                Problem("the tensors of this pass differ in size", f"{tuple(tensor.shape)} {tensor.dtype}")
            )
        return self._memory[start : start + size].view(tensor.dtype).view(tensor.shape)


def _copy_aside(tensor: Any, piece: Any) -> None:
    """To pinned memory in a stream of its own, from a copy on the device: later kernels may reuse the original."""
    kept = tensor.clone(memory_format=torch.contiguous_format)
    side = _side_stream(tensor.device)
    side.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(side):
        piece.copy_(kept, non_blocking=True)
    kept.record_stream(side)


def _side_stream(device: Any) -> Any:
    if device not in _side_streams:
        _side_streams[device] = torch.cuda.Stream(device)
    return _side_streams[device]


def view(name: str, tensor: Any) -> Tensor:
    """The bytes of a contiguous tensor in host memory, without a copy."""
    size = tensor.numel() * tensor.element_size()
    memory = (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""
    return Tensor(name, str(tensor.dtype).replace("torch.", ""), tuple(tensor.shape), memoryview(memory).cast("B"))
