"""One dump opened for checks: metadata, sizes, and what each tensor file holds, each read once."""

from __future__ import annotations

import os
import stat
from typing import Optional

from . import content, tensorfile
from . import meta as metadata
from .archive import TensorProblem
from .content import Content
from .files import listing
from .meta import ITEM_SIZES, Meta
from .tensorfile import TensorFile


class Dump:
    """The dump in the directory `path`. Raises OSError when it can't be listed.

    sizes: bytes of every file by name. tensors: every `.pt` file that holds a tensor. problems: why the others don't.
    numbers: look at the tensors' values too where their bytes are read.
    """

    def __init__(self, path: str, number: int, numbers: bool = True) -> None:
        self.path = path
        self.number = number
        self.sizes = {name: status.st_size for name, status in listing(path).items() if stat.S_ISREG(status.st_mode)}
        self.meta: Meta = metadata.read(path)
        self.tensors: dict[str, TensorFile] = {}
        self.problems: dict[str, str] = {}
        self._contents: dict[str, Content] = {}
        self._numbers = numbers
        for name in sorted(self.sizes):
            if name.endswith(".pt"):
                self._open(name)

    @property
    def hidden(self) -> dict[str, TensorFile]:
        """The tensors of hidden states that are there, in order."""
        return {name: self.tensors[name] for name in self.meta.hidden_names if name in self.tensors}

    def content(self, name: str) -> Content:
        """What the tensor's numbers are like. Reads the whole file, the first time. Raises OSError, TensorProblem."""
        if name not in self._contents:
            self._contents[name] = content.scan(self.tensors[name], self._numbers)
        return self._contents[name]

    def expected(self, name: str) -> Optional[int]:
        """Bytes of payload that the metadata implies for a file; None where that is not known."""
        meta = self.meta
        if meta.num_tokens is None or name not in meta.names:
            return None
        if name == metadata.IDS:
            return meta.num_tokens * 8
        dtype = meta.dtype or (self.tensors[name].dtype if name in self.tensors else "")
        itemsize = ITEM_SIZES.get(dtype)
        return None if itemsize is None or meta.hidden_size is None else meta.num_tokens * meta.hidden_size * itemsize

    def _open(self, name: str) -> None:
        try:
            self.tensors[name] = tensorfile.read(os.path.join(self.path, name))
        except TensorProblem as problem:
            self.problems[name] = str(problem)
        except OSError as error:
            self.problems[name] = f"can't be read: {error.strerror}"
