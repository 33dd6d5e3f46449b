"""The checks that need names, sizes, metadata and the tensors' descriptions, but none of their numbers."""

from __future__ import annotations

import re
import time
from typing import Optional

from remote.wire.plan import Check, Verdict

from .content import FLOATS
from .dump import Dump
from .meta import IDS
from .rows import size_problem
from .verdict import AGAIN, MERGED, MISSING_ROWS, Expected, judge, unknown

_CLOCK_SLACK_S = 60.0
_CLOCK = "Look whether the folder was renamed, or the container's clock was set."
_AUX = re.compile(r"aux_[0-9]+\.pt", re.ASCII)


def tokens(dump: Dump, expected: Optional[Expected]) -> Check:
    meta, rows = dump.meta, dump.meta.num_tokens
    if rows is None:
        return judge("tokens", ["meta.json does not say how many"], "", AGAIN)
    problems = [
        f"{name} has {tensor.rows} rows, meta.json says {rows}"
        for name, tensor in dump.tensors.items()
        if tensor.rows != rows
    ]
    remedy = AGAIN
    first, last = meta.first_position, meta.last_position
    if first is not None and last is not None and (first, last) != (0, rows - 1):
        problems.append(f"its rows are positions {first} to {last}, not 0 to {rows - 1}")
        remedy = MISSING_ROWS
    if expected is not None and rows != len(expected.ids):
        problems.append(f"{rows} rows for a prompt of {len(expected.ids)} ids: the rows are not the prompt's")
        remedy = MERGED if rows > len(expected.ids) else MISSING_ROWS
    return judge("tokens", problems, f"{rows} rows in every tensor", remedy)


def hidden_size(dump: Dump, _: Optional[Expected]) -> Check:
    size = dump.meta.hidden_size
    if size is None:
        return judge("hidden size", ["meta.json does not say it"], "", AGAIN)
    problems = [
        f"{name} has the shape {list(tensor.shape)}"
        for name, tensor in dump.hidden.items()
        if len(tensor.shape) != 2 or tensor.shape[1] != size
    ]
    return judge("hidden size", problems, f"{size} columns in every tensor", AGAIN)


def layers(dump: Dump, expected: Optional[Expected]) -> Check:
    meta, captured = dump.meta, dump.meta.captured_at_layers
    if captured is None or meta.num_aux_layers is None:
        return judge("layers", ["meta.json does not say which"], "", AGAIN)
    problems = []
    files = sum(_AUX.fullmatch(name) is not None for name in dump.sizes)
    if not files == meta.num_aux_layers == len(captured):
        problems.append(f"{files} aux files, num_aux_layers {meta.num_aux_layers}, {len(captured)} layer ids")
    if list(captured) != sorted(set(captured)):
        problems.append(f"layer ids {list(captured)} are not in ascending order")
    eagle = meta.eagle_layer_ids
    if eagle is not None and list(eagle) != [layer - 1 for layer in captured]:
        problems.append(f"eagle_layer_ids {list(eagle)} are not one below {list(captured)}")
    if expected is not None and captured != expected.layers:
        problems.append(f"captured before {list(captured)}, the profile wants {list(expected.layers)}")
    remedy = "Compare the profile's layers with the server's SGLANG_HS_DUMP_LAYERS, then restart the server."
    return judge("layers", problems, f"{len(captured)} layers, captured before {list(captured)}", remedy)


def files(dump: Dump, _: Optional[Expected]) -> Check:
    problems = list(dump.meta.problems)
    if "done" not in dump.sizes:
        problems.append("done is missing")
    elif dump.sizes["done"]:
        problems.append("done is not empty")
    names = (*dump.meta.names, *(name for name in dump.sizes if name.endswith(".pt") and name not in dump.meta.names))
    problems += [f"{name}: {problem}" for name in names for problem in [file_problem(dump, name)] if problem]
    total = sum(dump.sizes.get(name, 0) for name in names)
    return judge("files", problems, f"{len(names)} tensors and done, {total:,} bytes, as expected", AGAIN)


def file_problem(dump: Dump, name: str) -> str:
    """What is wrong with a `.pt` file: missing, unreadable, cut short, too much in it, other than recorded."""
    if name not in dump.sizes:
        return "missing"
    if name not in dump.meta.names and not dump.meta.problems:
        return "meta.json knows nothing of it"
    tensor, wanted = dump.tensors.get(name), dump.expected(name)
    if tensor is None:
        return dump.problems.get(name, "not a regular file")
    if tensor.payload > tensor.wanted:
        return f"holds more than its rows: {tensor.payload:,} bytes, {tensor.wanted:,} needed (saved from a view)"
    if tensor.payload < tensor.wanted or not tensor.contiguous:
        return f"its payload of {tensor.payload:,} bytes is not its rows in order"
    if wanted is not None and tensor.payload != wanted:
        return f"{tensor.payload:,} bytes of payload, {wanted:,} by meta.json"
    record = dump.meta.files.get(name)
    if record is not None and (record.payload, record.shape, record.dtype) != (
        tensor.payload,
        tensor.shape,
        tensor.dtype,
    ):
        return f"{tensor.dtype} {list(tensor.shape)}, but meta.json says {record.dtype} {list(record.shape)}"
    return size_problem(dump.meta, name, tensor.size) if not dump.meta.problems else ""


def counter(dump: Dump, expected: Optional[Expected]) -> Check:
    meta = dump.meta
    if meta.counter is None or meta.timestamp is None:
        return judge("counter and time", ["meta.json lacks the counter or the timestamp"], "", AGAIN)
    problems = []
    if meta.counter != dump.number:
        problems.append(f"counter {meta.counter} in req_{dump.number}")
    if expected is not None and meta.timestamp < expected.since - _CLOCK_SLACK_S:
        problems.append("its timestamp is older than the request")
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(meta.timestamp))
    if not problems and meta.timestamp > time.time() + _CLOCK_SLACK_S:
        return Check("counter and time", Verdict.WARN, f"its timestamp lies in the future: {when}", _CLOCK)
    return judge("counter and time", problems, f"counter {meta.counter}, {when}", _CLOCK)


def dtype(dump: Dump, _: Optional[Expected]) -> Check:
    if not dump.hidden:
        return unknown("dtype", "no tensor can be read")
    wanted = dump.meta.dtype or next(iter(dump.hidden.values())).dtype
    problems = [
        f"{name} is {tensor.dtype}, not {wanted}" for name, tensor in dump.hidden.items() if tensor.dtype != wanted
    ]
    if wanted not in FLOATS:
        problems.append(f"no hidden states are {wanted}")
    ids = dump.tensors.get(IDS)
    if ids is not None and ids.dtype != "int64":
        problems.append(f"{IDS} is {ids.dtype}, not int64")
    return judge("dtype", problems, f"{wanted} in every tensor", AGAIN)


def request(dump: Dump, expected: Optional[Expected]) -> Optional[Check]:
    """Nothing to say where the request, or its rid in the dump, is not known."""
    if expected is None or dump.meta.rid is None:
        return None
    problems = [f"its rid is {dump.meta.rid!r}, {expected.rid!r} was sent"] if dump.meta.rid != expected.rid else []
    return judge("request", problems, f"its rid is the one sent, {expected.rid}", "Send the test request again.")
