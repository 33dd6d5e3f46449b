"""meta.json of a dump, read key by key: what is wrong with one key does not hide the others. See docs/format.md."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from typing import Any, Callable, Optional

from remote.wire.codec import is_deeper

from .files import MAX_FILES, read_small

LIMIT = 1 << 20  # bytes of meta.json
MAX_LAYERS = 1000
KNOWN_SCHEMA = 3
DEEPEST = 16  # levels of nesting, of which five have a meaning: what is deeper can't be sent on
RID_KEPT = 200  # characters of a longer rid
_TEXT = 200  # characters of any other text
_MOST_DIMENSIONS = 8
ITEM_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4, "int64": 8}
FINAL_NORM = "post"  # no other was ever written: `final` is behind the norm
IDS = "input_ids.pt"
PRENORM = "final_prenorm.pt"  # on request


@dataclasses.dataclass(frozen=True)
class FileRecord:
    """What meta.json says about one `.pt` file. bytes: on disk; payload: bytes of the tensor; crc32: of the payload."""

    bytes: int
    payload: int
    crc32: int
    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class Meta:
    """The keys that are right; the others are None and named in `problems`. schema: None in versions 1 and 2."""

    raw: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: tuple[str, ...] = ()
    num_tokens: Optional[int] = None
    hidden_size: Optional[int] = None
    num_aux_layers: Optional[int] = None
    captured_at_layers: Optional[tuple[int, ...]] = None
    counter: Optional[int] = None
    timestamp: Optional[float] = None
    schema: Optional[int] = None
    eagle_layer_ids: Optional[tuple[int, ...]] = None
    rid: Optional[str] = None
    ids_sha256: Optional[str] = None
    first_position: Optional[int] = None
    last_position: Optional[int] = None
    dtype: Optional[str] = None
    files: dict[str, FileRecord] = dataclasses.field(default_factory=dict)

    @property
    def hidden_names(self) -> tuple[str, ...]:
        """The files that hold hidden states, in order."""
        more = (PRENORM,) if PRENORM in self.files else ()
        return (*(f"aux_{i}.pt" for i in range(self.num_aux_layers or 0)), "final.pt", *more)

    @property
    def names(self) -> tuple[str, ...]:
        """Every `.pt` file that has to be there."""
        return self.hidden_names if self.schema is None else (*self.hidden_names, IDS)


def read(folder: str) -> Meta:
    """The meta.json in `folder`; a file that can't be read gives a Meta without keys that says why."""
    try:
        text = read_small(os.path.join(folder, "meta.json"), LIMIT)
        raw = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except FileNotFoundError:
        return Meta(problems=("meta.json is missing",))
    except OSError as error:
        return Meta(problems=(f"meta.json can't be read: {error.strerror}",))
    except (ValueError, RecursionError):
        return Meta(problems=("meta.json is not JSON",))
    if not isinstance(raw, dict):
        return Meta(problems=("meta.json is not an object",))
    if is_deeper(raw, DEEPEST):
        return Meta(problems=("meta.json is nested too deeply",))
    return _Keys(raw).meta()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def shortened(rid: str) -> str:
    """A rid as it is told and compared: of a very long one its beginning and its SHA-256, so that lists stay small."""
    if len(rid) <= RID_KEPT:
        return rid
    return f"{rid[:RID_KEPT]}… sha256 {hashlib.sha256(rid.encode('utf-8', 'surrogatepass')).hexdigest()}"


class _Keys:
    """Takes typed values out of the raw object and notes what does not fit."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.problems: list[str] = []

    def meta(self) -> Meta:
        schema = self.count("schema", needed=False)
        new = schema is not None
        if schema is not None and schema > KNOWN_SCHEMA:
            self.problems.append(f"schema {schema} is newer than this hsconsole knows")
        values: dict[str, Any] = {
            "schema": schema,
            "num_tokens": self.count("num_tokens", low=1),
            "hidden_size": self.count("hidden_size", low=1),
            "num_aux_layers": self.count("num_aux_layers", high=MAX_LAYERS),
            "captured_at_layers": self.counts("captured_at_layers"),
            "counter": self.count("counter", high=1 << 53),
            "timestamp": self.take("timestamp", True, _is_time),
            "eagle_layer_ids": self.counts("eagle_layer_ids", needed=new, low=-1),
            "rid": self.rid(),
            "ids_sha256": self.text("ids_sha256", needed=new),
            "first_position": self.count("first_position", needed=new),
            "last_position": self.count("last_position", needed=new),
            "dtype": self.text("dtype", needed=new),
            "files": self.records(needed=new),
        }
        self.take("final_norm", new, lambda value: value == FINAL_NORM)
        found = Meta(raw=self.raw, **values)
        if new:
            self.problems += [
                f"meta.json: files has no record of {name}" for name in found.names if name not in found.files
            ]
        return dataclasses.replace(found, problems=tuple(self.problems))

    def take(self, key: str, needed: bool, fits: Callable[[Any], bool]) -> Any:
        """The value; None, and a problem, where it does not fit or is needed and not there."""
        value = self.raw.get(key)
        if value is None and needed:
            self.problems.append(f"meta.json lacks {key}")
        if value is None or fits(value):
            return value
        self.problems.append(f"meta.json: {key} can't be {json.dumps(value)[:60]}")
        return None

    def count(self, key: str, low: int = 0, high: int = 1 << 31, needed: bool = True) -> Optional[int]:
        found: Optional[int] = self.take(key, needed, lambda value: _is_count(value) and low <= value <= high)
        return found

    def counts(self, key: str, needed: bool = True, low: int = 0) -> Optional[tuple[int, ...]]:
        found = self.take(
            key,
            needed,
            lambda value: (
                isinstance(value, list)
                and len(value) <= MAX_LAYERS
                and all(_is_count(item) and low <= item < 1 << 31 for item in value)
            ),
        )
        return None if found is None else tuple(found)

    def text(self, key: str, needed: bool = True) -> Optional[str]:
        found: Optional[str] = self.take(key, needed, lambda value: isinstance(value, str) and len(value) <= _TEXT)
        return found

    def rid(self) -> Optional[str]:
        found: Optional[str] = self.take("rid", False, lambda value: isinstance(value, str))
        return None if found is None else shortened(found)

    def records(self, needed: bool) -> dict[str, FileRecord]:
        found = self.take("files", needed, lambda value: isinstance(value, dict) and len(value) <= MAX_FILES) or {}
        records = {name: _record(value) for name, value in found.items()}
        self.problems += [
            f"meta.json: files[{name[:60]!r}] is no record" for name, value in records.items() if value is None
        ]
        return {name: record for name, record in records.items() if record is not None}


def _record(value: Any) -> Optional[FileRecord]:
    try:
        record = FileRecord(**{field.name: value[field.name] for field in dataclasses.fields(FileRecord)})
        record = dataclasses.replace(record, shape=tuple(record.shape))
    except (TypeError, KeyError):
        return None
    numbers = (record.bytes, record.payload, record.crc32, *record.shape[:_MOST_DIMENSIONS])
    counts = all(_is_count(number) and 0 <= number < 1 << 63 for number in numbers)
    fits = counts and len(record.shape) <= _MOST_DIMENSIONS
    return record if fits and isinstance(record.dtype, str) and len(record.dtype) <= _TEXT else None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e11


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
