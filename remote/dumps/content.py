"""What the numbers in a tensor file are like, in one pass over its payload in chunks.

Memory: a chunk of 4 MiB and numpy's masks of it, together under 24 MiB, whatever the file's size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import sys
import zlib
from typing import Any, Optional

from .tensorfile import TensorFile

CHUNK = 4 << 20  # bytes
_BITS = {  # dtype: (unsigned integer of its width, exponent bits, mantissa bits)
    "bfloat16": ("<u2", 0x7F80, 0x007F),
    "float16": ("<u2", 0x7C00, 0x03FF),
    "float32": ("<u4", 0x7F800000, 0x007FFFFF),
}


@dataclasses.dataclass
class Content:
    """sha256, crc: of the payload. The rest is None where it was not looked at (`unread` says why), else words or ''.

    Rows count from 0.
    """

    sha256: str = ""
    crc: int = 0
    not_finite: Optional[str] = None
    constant: Optional[str] = None
    unread: str = ""


def scan(tensor: TensorFile) -> Content:
    """Raises OSError, TensorProblem when the file can't be read to its end."""
    content, digest = Content(), hashlib.sha256()
    look = _Look(tensor) if tensor.dtype in _BITS else None
    numpy = _numpy()
    if look is None:
        content.unread = f"{tensor.dtype} is no hidden state"
    elif numpy is None:
        content.unread = f"numpy is missing in {sys.executable}"
    elif not 0 < tensor.row_bytes <= CHUNK or tensor.wanted != tensor.payload:
        content.unread = "its payload is not its rows"
    length = CHUNK if content.unread else CHUNK // tensor.row_bytes * tensor.row_bytes
    for chunk in tensor.chunks(length):
        digest.update(chunk)
        content.crc = zlib.crc32(chunk, content.crc)
        if look is not None and not content.unread:
            look.take(numpy, chunk)
    content.sha256 = digest.hexdigest()
    if look is not None and not content.unread:
        content.not_finite, content.constant = look.not_finite(), look.constant()
    return content


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


class _Look:
    """Finds rows that are not finite or constant, by the bits of their values: numpy has no bfloat16."""

    def __init__(self, tensor: TensorFile) -> None:
        self._kind, self._exponent, self._mantissa = _BITS[tensor.dtype]
        self._columns = tensor.row_bytes // tensor.itemsize
        self._row = 0
        self._bad_rows = 0
        self._first_bad = ""
        self._constant_rows = 0
        self._first_constant = ""

    def take(self, numpy: Any, chunk: bytes) -> None:
        bits = numpy.frombuffer(chunk, dtype=self._kind).reshape(-1, self._columns)
        infinite = (bits & self._exponent) == self._exponent
        self._note_bad(numpy, bits, infinite.any(axis=1))
        if self._columns > 1:
            zero = ((bits & (self._exponent | self._mantissa)) == 0).all(axis=1)
            self._note_constant(numpy, zero, zero | (bits == bits[:, :1]).all(axis=1))
        self._row += len(bits)

    def not_finite(self) -> str:
        return _words(self._first_bad, self._bad_rows)

    def constant(self) -> str:
        return _words(self._first_constant, self._constant_rows)

    def _note_bad(self, numpy: Any, bits: Any, bad: Any) -> None:
        count = int(bad.sum())
        if count and not self._bad_rows:
            row = int(numpy.argmax(bad))
            values = bits[row][(bits[row] & self._exponent) == self._exponent]
            nan = int(((values & self._mantissa) != 0).sum())
            kind = " and ".join(word for word, there in (("NaN", nan), ("Inf", len(values) - nan)) if there)
            self._first_bad = f"row {self._row + row} has {kind} in {len(values)} of {self._columns} values"
        self._bad_rows += count

    def _note_constant(self, numpy: Any, zero: Any, constant: Any) -> None:
        count = int(constant.sum())
        if count and not self._constant_rows:
            row = int(numpy.argmax(constant))
            self._first_constant = f"row {self._row + row} is {'all zero' if zero[row] else 'one value throughout'}"
        self._constant_rows += count


def _words(first: str, count: int) -> str:
    return first + (f", and {count - 1} more rows" if count > 1 else "")
