"""Single rows of a model's output matrix (lm_head), and the final norm, read by place from its safetensors."""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from remote.dumps import content
from remote.dumps.archive import TensorProblem, pread
from remote.dumps.files import plain
from remote.server import model

_LARGEST_HEADER = 64 << 20  # bytes
_DTYPES = {"BF16": ("bfloat16", 2), "F16": ("float16", 2), "F32": ("float32", 4)}
# a language model inside a larger one (Kimi K2.5, for one) has its names behind a prefix
_PREFIXES = ("", "language_model.", "model.", "model.language_model.", "language_model.model.")
_HEADS = tuple(f"{prefix}lm_head.weight" for prefix in _PREFIXES)
_NORMS = tuple(f"{prefix}norm.weight" for prefix in _PREFIXES)
_EMBEDDINGS = tuple(f"{prefix}embed_tokens.weight" for prefix in _PREFIXES)
# settings by which logits are more than hidden state × matrix
_SCALES = ("final_logit_softcapping", "logits_soft_cap", "logit_scale", "logits_scaling", "lm_head_multiplier")


class NoHead(Exception):
    """Why no row of lm_head can be read, in words."""


@dataclasses.dataclass(frozen=True)
class Head:
    """`[vocabulary, hidden]` at `offset` of `path`. name: in the file. dtype: of the file, as torch names it."""

    path: str
    name: str
    dtype: str
    itemsize: int
    vocabulary: int
    hidden: int
    offset: int

    def rows(self, numpy: Any, ids: Iterable[int]) -> dict[int, Any]:
        """Each id's row as float64. Raises NoHead."""
        length = self.hidden * self.itemsize
        found: dict[int, Any] = {}
        try:
            handle = plain(self.path, os.O_RDONLY)
        except OSError as error:
            raise NoHead(f"{self.path} can't be read: {error.strerror}") from None
        try:
            for one in ids:
                if not 0 <= one < self.vocabulary:
                    raise NoHead(f"{self.name} has {self.vocabulary} rows, none for token {one}")
                data = pread(handle, length, self.offset + one * length)
                found[one] = content.floats(numpy, data, self.dtype).astype("f8")
        except (OSError, TensorProblem) as error:
            raise NoHead(f"{self.path} can't be read: {error}") from None
        finally:
            os.close(handle)
        return found


def find(folder: str) -> Head:
    """The output matrix of the model in `folder`, the embedding where the model ties them. Raises NoHead."""
    if not os.path.isdir(folder):
        raise NoHead(f"{folder} is no folder here, so its weights are not looked for")
    config = _config(folder)
    scales = [name for name in _SCALES if config.get(name) not in (None, 1, 1.0)]
    if scales:
        raise NoHead(f"this model's logits are scaled ({', '.join(scales)}), which this check does not know")
    files = _files(folder)
    tied = config.get("tie_word_embeddings")
    names = _EMBEDDINGS if tied is True else _HEADS if tied is False else (*_HEADS, *_EMBEDDINGS)
    for name in names:
        if name in files:
            if f"{name[: -len('weight')]}bias" in files:
                raise NoHead(f"{name} comes with a bias, which this check does not know")
            return _head(os.path.join(folder, files[name]), name)
    packed = next((name for name in files if "lm_head." in name), None)
    if packed:
        raise NoHead(f"lm_head is quantised ({packed}): its rows are no plain numbers")
    raise NoHead(f"no weight in {folder} is called {names[0]}" if files else f"{folder} has no safetensors")


def norm_weight(numpy: Any, folder: str, hidden: int) -> Any:
    """The weight of the final norm, float64. Raises NoHead."""
    if not os.path.isdir(folder):
        raise NoHead(f"{folder} is no folder here, so its weights are not looked for")
    files = _files(folder)
    name = next((one for one in _NORMS if one in files), None)
    if name is None:
        raise NoHead(f"no weight in {folder} is called {_NORMS[2]}")
    row = _head(os.path.join(folder, files[name]), name)
    if row.hidden != hidden:
        raise NoHead(f"{name} has {row.hidden} values, a row {hidden}")
    return row.rows(numpy, (0,))[0]


def _config(folder: str) -> dict[str, Any]:
    """config.json with what `text_config` says laid over it."""
    known = model.config(folder)
    values = known.values if known else {}
    inner = values.get("text_config")
    return {**values, **inner} if isinstance(inner, dict) else values


def _files(folder: str) -> dict[str, str]:
    """The file of each weight, by its name. Without an index all files are looked into. Raises NoHead."""
    index = _json(os.path.join(folder, model.INDEX))
    weights = index.get("weight_map") if isinstance(index, dict) else None
    if isinstance(weights, dict):
        return {str(name): os.path.basename(str(file)) for name, file in weights.items()}
    found: dict[str, str] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    except OSError as error:
        raise NoHead(f"{folder} can't be listed: {error.strerror}") from None
    for file in names:
        found.update(dict.fromkeys(_header(os.path.join(folder, file))[0], file))
    return found


def _json(path: str) -> Any:
    try:
        with open(path, "rb", opener=plain) as file:
            return json.loads(file.read(_LARGEST_HEADER))
    except (OSError, ValueError, RecursionError):
        return None


def _header(path: str) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and where its data begins. Raises NoHead."""
    try:
        with open(path, "rb", opener=plain) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length <= _LARGEST_HEADER else None
    except OSError as error:
        raise NoHead(f"{path} can't be read: {error.strerror}") from None
    except (struct.error, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise NoHead(f"{path} is no safetensors file")
    return header, 8 + length


def _head(path: str, name: str) -> Head:
    header, start = _header(path)
    entry = header.get(name)
    shape, dtype, place = _entry(entry)
    if shape is None or place is None:
        raise NoHead(f"{path} does not hold {name} as its index says")
    if dtype not in _DTYPES:
        raise NoHead(f"{name} is {dtype}: its rows are no plain numbers")
    kind, itemsize = _DTYPES[dtype]
    return Head(path, name, kind, itemsize, shape[0], shape[1], start + place)


def _entry(entry: Any) -> tuple[Optional[Sequence[int]], str, Optional[int]]:
    """Shape, dtype and offset of a weight, a vector as one row; None where the header has nonsense."""
    try:
        shape, dtype, (begin, _) = entry["shape"], str(entry["dtype"]), entry["data_offsets"]
        rows, columns = map(int, shape if len(shape) != 1 else (1, *shape))
        return (rows, columns), dtype, int(begin)
    except (KeyError, TypeError, ValueError):
        return None, "", None
