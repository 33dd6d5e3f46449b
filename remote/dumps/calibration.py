"""The norms of a model's rows: from the file of an earlier verification, else learned from the dumps at hand."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Optional

from remote.statedir import StateDirError, state_dir, write_json
from remote.wire.codec import decode, encode
from remote.wire.errors import WireError

from . import norms
from .archive import TensorProblem
from .content import numpy
from .dump import Dump
from .files import read_small
from .norms import LEAST_DUMPS, Norms, Summary
from .recorded import file_problem

SAMPLE_DUMPS = 64
SAMPLE_BYTES = 1 << 30  # read to learn from, once LEAST_DUMPS are
KEPT_FROM = 32  # dumps: what fewer taught is not kept
_LIMIT = 1 << 20  # bytes of the file
_IDENTITY = ("config.json", "model.safetensors.index.json")  # of a model, beside its path


def norms_for(model_path: str, dump_dir: str, names: Sequence[str]) -> Optional[Norms]:
    """None when nothing is kept and `names`, directories in `dump_dir`, have too few good dumps, or numpy is missing.

    Reads at most about a GiB, and keeps what at least KEPT_FROM different prompts taught in the state folder. What is
    kept stays as it is; layers that it does not know are learned beside it.
    """
    if numpy() is None:
        return None
    path = _path(model_path)
    kept = _kept(path)
    if kept is not None and _knows_all(kept, dump_dir, names):
        return dataclasses.replace(kept, source=f"kept in {path}")
    learned = learn(dump_dir, names)
    if learned is None:
        return kept and dataclasses.replace(kept, source=f"kept in {path}")
    if kept is not None:
        source = f"kept in {path}, and learned from these dumps for other layers"
        learned = Norms({**learned.tensors, **kept.tensors}, learned.dumps, source)
    if learned.dumps >= KEPT_FROM and path:
        _keep(path, learned)
    return learned


def learn(dump_dir: str, names: Sequence[str]) -> Optional[Norms]:
    """From a sample of the dumps, spread evenly over them."""
    module = numpy()
    seen: list[dict[str, Summary]] = []
    prompts: set[str] = set()
    read = 0
    for name in _sample(names):
        if len(seen) == SAMPLE_DUMPS or (read > SAMPLE_BYTES and len(seen) >= LEAST_DUMPS):
            break
        try:
            dump = Dump(os.path.join(dump_dir, name), -1)
            prompt = dump.meta.ids_sha256 or name
            if prompt in prompts or not _usable(dump):
                continue
            told = norms.summaries(dump)
        except (OSError, TensorProblem):
            continue
        if told:
            seen.append(told)
            prompts.add(prompt)
            read += sum(tensor.payload for tensor in dump.hidden.values())
    if len(seen) < LEAST_DUMPS:
        return None
    return norms.learn(module, seen, "learned from these dumps")


def _sample(names: Sequence[str]) -> Sequence[str]:
    """Twice as many as are learned from, for some are not fit."""
    return names[:: max(1, len(names) // (2 * SAMPLE_DUMPS))]


def _knows_all(kept: Norms, dump_dir: str, names: Sequence[str]) -> bool:
    """Whether it has norms for every tensor of the dumps in the sample."""
    for name in _sample(names):
        try:
            dump = Dump(os.path.join(dump_dir, name), -1)
        except OSError:
            continue
        if _usable(dump) and any(norms.key_of(dump, tensor) not in kept.tensors for tensor in dump.hidden):
            return False
    return True


def _usable(dump: Dump) -> bool:
    """Whole by its names, sizes and metadata."""
    names = dump.meta.hidden_names
    return "done" in dump.sizes and not dump.meta.problems and not any(file_problem(dump, name) for name in names)


def _path(model_path: str) -> str:
    """Where the norms of this model are kept; empty when there is no place."""
    identity = hashlib.sha256(os.path.realpath(model_path).encode("utf-8", "surrogateescape"))
    for name in _IDENTITY:
        with contextlib.suppress(OSError):
            identity.update(read_small(os.path.join(model_path, name), 64 << 20))
    with contextlib.suppress(StateDirError):
        return os.path.join(state_dir(), f"norms-{identity.hexdigest()[:16]}.json")
    return ""


def _kept(path: str) -> Optional[Norms]:
    try:
        return decode(Norms, json.loads(read_small(path, _LIMIT))) if path else None
    except (OSError, ValueError, RecursionError, WireError):
        return None


def _keep(path: str, learned: Norms) -> None:
    """Without it the next verification learns anew."""
    with contextlib.suppress(OSError):
        write_json(path, encode(learned))
