"""What a pickled tensor looks like, from its pickle's opcodes alone: nothing is imported, called or built."""

from __future__ import annotations

import dataclasses
import functools
import pickletools
import struct
from typing import Any, Callable, NamedTuple

from .archive import TensorProblem

_REBUILD = "torch._utils _rebuild_tensor_v2"
_ORDERED_DICT = "collections OrderedDict"
_STORAGES = {
    "torch BFloat16Storage": ("bfloat16", 2),
    "torch HalfStorage": ("float16", 2),
    "torch FloatStorage": ("float32", 4),
    "torch DoubleStorage": ("float64", 8),
    "torch LongStorage": ("int64", 8),
    "torch IntStorage": ("int32", 4),
    "torch ShortStorage": ("int16", 2),
    "torch CharStorage": ("int8", 1),
    "torch ByteStorage": ("uint8", 1),
    "torch BoolStorage": ("bool", 1),
}
_DAMAGED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error)


@dataclasses.dataclass(frozen=True)
class Description:
    """A tensor and its storage. shape, stride, storage_offset and numel (of the storage) count elements."""

    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    storage_offset: int
    key: str
    numel: int


@dataclasses.dataclass(frozen=True)
class _Global:
    """No tuple: those are made by what is read."""

    name: str


class _Storage(NamedTuple):
    dtype: str
    itemsize: int
    key: str
    numel: int


@functools.lru_cache(maxsize=64)  # tensors of one shape have the same pickle
def describe(pickled: bytes) -> Description:
    """The one tensor in `pickled`. Raises TensorProblem for anything else, saying what it is."""
    try:
        found = _Machine().run(pickled)
    except _DAMAGED:
        raise TensorProblem("its pickle is damaged") from None
    if not isinstance(found, Description):
        raise TensorProblem("it holds something else than one tensor")
    return found


class _Machine:
    """A stack machine for the few opcodes that torch.save uses for a plain tensor."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name == "STOP":
                return self.stack.pop()
            handler = _HANDLERS.get(opcode.name)
            if handler is None:
                raise TensorProblem(f"it holds something else than one tensor (pickle opcode {opcode.name})")
            handler(self, argument)
        raise ValueError("no STOP")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def tuple_from_mark(self, _: Any) -> None:
        start = self.marks.pop()
        self.stack[start:] = [tuple(self.stack[start:])]

    def tuple_of(self, count: int) -> None:
        if count > len(self.stack):
            raise IndexError(count)
        start = len(self.stack) - count
        self.stack[start:] = [tuple(self.stack[start:])]

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def global_(self, name: str) -> None:
        if name not in (_REBUILD, _ORDERED_DICT) and name not in _STORAGES:
            raise TensorProblem(f"it refers to {name.replace(' ', '.')[:80]!r}: only plain tensors are read")
        self.stack.append(_Global(name))

    def persistent(self, _: Any) -> None:
        kind, storage, key, _device, numel = self.stack.pop()
        if kind != "storage" or not isinstance(key, str) or not _is_size(numel):
            raise ValueError("not a storage")
        dtype, itemsize = _STORAGES[storage.name]
        self.stack.append(_Storage(dtype, itemsize, key, numel))

    def reduce(self, _: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if function == _Global(_ORDERED_DICT) and arguments == ():
            self.stack.append(None)
        elif function == _Global(_REBUILD):
            self.stack.append(_tensor(*arguments))
        else:
            raise TensorProblem("it holds something else than one tensor")


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any, _hooks: Any, *_rest: Any) -> Description:
    if not isinstance(storage, _Storage) or not _is_size(offset) or len(shape) != len(stride) or len(shape) > 8:
        raise ValueError("not a tensor")
    if not all(map(_is_size, (*shape, *stride))):
        raise ValueError("not a shape")
    return Description(storage.dtype, storage.itemsize, shape, stride, offset, storage.key, storage.numel)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


_HANDLERS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda *_: None,
    "MARK": _Machine.mark,
    "TUPLE": _Machine.tuple_from_mark,
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "BINUNICODE": _Machine.push,
    "BININT": _Machine.push,
    "BININT1": _Machine.push,
    "BININT2": _Machine.push,
    "LONG1": _Machine.push,
    "NEWFALSE": lambda machine, _: machine.push(False),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "GLOBAL": _Machine.global_,
    "BINPERSID": _Machine.persistent,
    "REDUCE": _Machine.reduce,
}
