"""A model folder as far as a start depends on it: its configuration, and whether its weights are all there."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from remote.dumps.files import plain
from remote.server import safetensors
from remote.wire import amounts
from remote.wire.plan import Check, Verdict

INDEX = "model.safetensors.index.json"
WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
MOST_LISTED = 3
ITEM_BYTES = {"float32": 4, "float": 4}  # of --dtype; everything else SGLang serves in 2


class Config:
    """config.json. Models with several parts keep the language model's in `text_config`."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        inner = values.get("text_config")
        self._text: dict[str, Any] = inner if isinstance(inner, dict) else values

    @property
    def layers(self) -> Optional[int]:
        return self._int("num_hidden_layers")

    @property
    def hidden_size(self) -> Optional[int]:
        return self._int("hidden_size")

    @property
    def vocabulary(self) -> Optional[int]:
        return self._int("vocab_size")

    @property
    def architectures(self) -> tuple[str, ...]:
        names = self.values.get("architectures")
        return tuple(map(str, names)) if isinstance(names, list) else ()

    def _int(self, key: str) -> Optional[int]:
        value = self._text.get(key, self.values.get(key))
        return value if isinstance(value, int) and value > 0 else None


def config(path: str) -> Optional[Config]:
    """The configuration of the model in folder `path`; None when there is none that can be read."""
    values = read_json(os.path.join(path, "config.json"))
    return Config(values) if isinstance(values, dict) else None


def read_json(path: str) -> Any:
    """What a file of a model's folder holds; None where that can't be read."""
    try:
        with open(path, "rb", opener=plain) as file:
            return json.loads(file.read(safetensors.LARGEST_JSON))
    except (OSError, ValueError, RecursionError):
        return None


def check(path: str, layers: tuple[int, ...]) -> Check:
    """Is there a model, and does it have the layers to be captured?"""
    if not os.path.isdir(path):
        if os.path.isabs(path) or path.count("/") != 1:
            return Check("model", Verdict.BAD, f"{path}: there is no such folder", "Set server.model_path.")
        found = f"{path} is no folder here: SGLang would look for it in the Hugging Face cache or download it"
        return Check("model", Verdict.WARN, found, "Set server.model_path to the model's folder.")
    model = config(path)
    if model is None:
        remedy = "Complete the download, or set server.model_path to the folder that holds config.json."
        return Check("model", Verdict.BAD, f"{path}: no config.json that can be read", remedy)
    kind = ", ".join(model.architectures) or "architecture not named"
    if model.layers is None:
        return Check("model", Verdict.UNKNOWN, f"{path}: {kind}; config.json has no num_hidden_layers")
    beyond = [layer for layer in layers if not 0 <= layer < model.layers]
    if beyond:
        found = f"{kind} has layers 0 to {model.layers - 1}; dump.layers asks for {_listed(beyond)}"
        return Check("model", Verdict.BAD, found, "Correct dump.layers in the profile.")
    return Check("model", Verdict.OK, f"{kind}, {model.layers} layers of {model.hidden_size}")


def check_weights(path: str) -> Check:
    """Is every weight file there and whole? A .safetensors file says itself how long it must be."""
    shards = _shards(path)
    if not shards:
        remedy = "Complete the download, or start with --load-format dummy in server.flags for random weights."
        return Check("weights", Verdict.BAD, f"{path}: no weights", remedy)
    problems = [f"{name}: {problem}" for name in shards for problem in [_problem(os.path.join(path, name))] if problem]
    if problems:
        found = f"{len(problems)} of {len(shards)} files are not whole: {_listed(problems)}"
        return Check("weights", Verdict.BAD, found, "Download those files again.")
    size = sum(os.path.getsize(os.path.join(path, name)) for name in shards)
    return Check("weights", Verdict.OK, f"{len(shards)} file{'s' * (len(shards) > 1)}, {amounts.size(size)}, all whole")


def _shards(path: str) -> list[str]:
    index = read_json(os.path.join(path, INDEX))
    if isinstance(index, dict) and isinstance(index.get("weight_map"), dict):
        return sorted({os.path.basename(str(name)) for name in index["weight_map"].values()})
    try:
        return sorted(name for name in os.listdir(path) if name.endswith(WEIGHTS))
    except OSError:
        return []


def _problem(path: str) -> str:
    try:
        size = os.path.getsize(path)
        if size == 0:
            return "is empty"
        expected = safetensors.read(path).size if path.endswith(".safetensors") else size
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return error.strerror or "can't be read"
    except ValueError:
        return "has a damaged header"
    return "" if expected == size else f"has {size} bytes of {expected}"


def request_bytes(model: Config, tokens: int, layers: int, dtype: str) -> Optional[int]:
    """Bytes that a dump of `tokens` rows takes: the captured layers, the final state, and the ids."""
    if model.hidden_size is None:
        return None
    return tokens * (model.hidden_size * ITEM_BYTES.get(dtype, 2) * (layers + 1) + 8)


def _listed(items: list[Any]) -> str:
    more = f" and {len(items) - MOST_LISTED} more" if len(items) > MOST_LISTED else ""
    return ", ".join(map(str, items[:MOST_LISTED])) + more
