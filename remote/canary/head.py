"""Single rows of a model's output matrix (lm_head), and the final norm, read by place from its safetensors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from remote.dumps import content
from remote.dumps.archive import TensorProblem, pread
from remote.dumps.files import plain
from remote.server import model, safetensors
from remote.server.safetensors import Stored

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
    index = model.read_json(os.path.join(folder, model.INDEX))
    weights = index.get("weight_map") if isinstance(index, dict) else None
    if isinstance(weights, dict):
        return {str(name): os.path.basename(str(file)) for name, file in weights.items()}
    found: dict[str, str] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    except OSError as error:
        raise NoHead(f"{folder} can't be listed: {error.strerror}") from None
    for file in names:
        found.update(dict.fromkeys(_header(os.path.join(folder, file)), file))
    return found


def _header(path: str) -> dict[str, Stored]:
    """The tensors of a safetensors file. Raises NoHead."""
    try:
        return safetensors.read(path).tensors
    except OSError as error:
        raise NoHead(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise NoHead(str(error)) from None


def _head(path: str, name: str) -> Head:
    """A vector is one row."""
    stored = _header(path).get(name)
    if stored is None or len(stored.shape) not in (1, 2):
        raise NoHead(f"{path} does not hold {name} as its index says")
    if stored.dtype not in _DTYPES:
        raise NoHead(f"{name} is {stored.dtype}: its rows are no plain numbers")
    kind, itemsize = _DTYPES[stored.dtype]
    vocabulary, hidden = stored.shape if len(stored.shape) == 2 else (1, *stored.shape)
    return Head(path, name, kind, itemsize, vocabulary, hidden, stored.begin)
