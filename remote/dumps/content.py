"""What the numbers in a tensor file are like, in one pass over its payload in chunks.

Memory: a chunk of half a MiB (or one row), its values widened to float32, and a number a row; whatever the file's size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import sys
import zlib
from typing import Any, Optional

from .tensorfile import TensorFile

CHUNK = 1 << 19  # bytes: with its widened copy it stays in a core's cache
_LARGEST_ROW = 4 << 20  # bytes
_MOST_ROWS = 1 << 24  # longer than any prompt; a number is kept of each
FLOATS = ("bfloat16", "float16", "float32")
_BITS = {  # dtype: (unsigned integer of its width, exponent bits, mantissa bits)
    "bfloat16": ("<u2", 0x7F80, 0x007F),
    "float16": ("<u2", 0x7C00, 0x03FF),
    "float32": ("<u4", 0x7F800000, 0x007FFFFF),
}


@dataclasses.dataclass
class Content:
    """crc: of the payload; sha256: of integers (ids), else empty.

    The rest is None where it was not looked at (`unread` says why). not_finite, constant: words or ''.
    squares: the sum of squares of each row, a numpy array of float64. Rows count from 0.
    """

    crc: int = 0
    sha256: str = ""
    not_finite: Optional[str] = None
    constant: Optional[str] = None
    squares: Optional[Any] = None
    unread: str = ""


def scan(tensor: TensorFile, numbers: bool = True) -> Content:
    """One pass. numbers: look at the values too, not only at the bytes.

    Raises OSError, TensorProblem when the file can't be read to its end.
    """
    content, digest = Content(), hashlib.sha256()
    look = None
    content.unread = _unreadable(tensor) if numbers else "its numbers were not asked for"
    if not content.unread:
        look = _Look(numpy(), tensor)
    for chunk in tensor.chunks(chunk_bytes(tensor)):
        content.crc = zlib.crc32(chunk, content.crc)
        if look is not None:
            look.take(chunk)
        elif tensor.dtype == "int64":
            digest.update(chunk)
    if tensor.dtype == "int64":
        content.sha256 = digest.hexdigest()
    if look is not None:
        content.not_finite, content.constant, content.squares = look.not_finite(), look.constant(), look.squares()
    return content


def numpy() -> Any:
    """The module, None where this Python has none."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def chunk_bytes(tensor: TensorFile) -> int:
    """Whole rows of about CHUNK bytes; CHUNK where rows mean nothing."""
    if not 0 < tensor.row_bytes <= _LARGEST_ROW:
        return CHUNK
    return max(1, CHUNK // tensor.row_bytes) * tensor.row_bytes


def floats(module: Any, data: Any, dtype: str, room: Any = None) -> Any:
    """`data` (bytes of `dtype`) as float32 values; a copy, but for float32. room: a float32 array to copy into."""
    if dtype == "float32":
        return module.frombuffer(data, "<f4")
    half = module.frombuffer(data, "<f2" if dtype == "float16" else "<u2")
    wide = module.empty(len(half), "<f4") if room is None else room[: len(half)]
    if dtype == "float16":
        module.copyto(wide, half)
    else:  # bfloat16, the upper half of a float32; numpy has no such type
        module.left_shift(half, 16, out=wide.view("<u4"), dtype="<u4", casting="unsafe")
    return wide


def _unreadable(tensor: TensorFile) -> str:
    if tensor.dtype not in _BITS:
        return f"{tensor.dtype} is no hidden state"
    if numpy() is None:
        return f"numpy is missing in {sys.executable}"
    if not 0 < tensor.row_bytes <= _LARGEST_ROW or tensor.wanted != tensor.payload:
        return "its payload is not its rows"
    if tensor.rows > _MOST_ROWS:
        return f"{tensor.rows:,} rows are no prompt's"
    return ""


class _Look:
    """Sums of squares of rows; rows that they make suspect of not being finite, or constant, are looked at by bits."""

    def __init__(self, module: Any, tensor: TensorFile) -> None:
        self._numpy = module
        self._dtype = tensor.dtype
        self._kind, self._exponent, self._mantissa = _BITS[tensor.dtype]
        self._columns = tensor.row_bytes // tensor.itemsize
        # one for all chunks: fresh memory costs more than the numbers
        self._room = module.empty(min(chunk_bytes(tensor), tensor.payload) // tensor.itemsize, "<f4")
        self._row = 0
        self._squares: list[Any] = []
        self._bad = _Rows()
        self._constant = _Rows()

    def take(self, chunk: memoryview) -> None:
        numpy = self._numpy
        values = floats(numpy, chunk, self._dtype, self._room).reshape(-1, self._columns)
        squares = numpy.einsum("ij,ij->i", values, values).astype("f8")
        bits = numpy.frombuffer(chunk, dtype=self._kind).reshape(-1, self._columns)
        for row in numpy.flatnonzero(~numpy.isfinite(squares)):
            self._note_bad(bits[row], int(row))
            with numpy.errstate(all="ignore"):
                squares[row] = (values[row].astype("f8") ** 2).sum()  # its square may be beyond float32
        if self._columns > 1:
            same = (bits[:, 0] == bits[:, -1]) & (bits[:, 0] == bits[:, self._columns // 2])
            for row in numpy.flatnonzero(same | (squares == 0)):
                self._note_constant(bits[row], int(row))
        self._squares.append(squares)
        self._row += len(bits)

    def not_finite(self) -> str:
        return self._bad.words()

    def constant(self) -> str:
        return self._constant.words()

    def squares(self) -> Any:
        return self._numpy.concatenate(self._squares) if self._squares else self._numpy.empty(0)

    def _note_bad(self, bits: Any, row: int) -> None:
        values = bits[(bits & self._exponent) == self._exponent]
        if not len(values):
            return
        nan = int(((values & self._mantissa) != 0).sum())
        kind = " and ".join(word for word, there in (("NaN", nan), ("Inf", len(values) - nan)) if there)
        self._bad.note(f"row {self._row + row} has {kind} in {len(values)} of {self._columns} values")

    def _note_constant(self, bits: Any, row: int) -> None:
        zero = not (bits & (self._exponent | self._mantissa)).any()
        if zero or (bits == bits[0]).all():
            self._constant.note(f"row {self._row + row} is {'all zero' if zero else 'one value throughout'}")


class _Rows:
    """The first row of a kind in words, and how many there are."""

    def __init__(self) -> None:
        self._first = ""
        self._count = 0

    def note(self, words: str) -> None:
        self._first = self._first or words
        self._count += 1

    def words(self) -> str:
        return self._first + (f", and {self._count - 1} more rows" if self._count > 1 else "")
