"""Frozen dataclasses to JSON values and back, by their type hints."""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing
from typing import Any, TypeVar, Union

from .errors import WireError

T = TypeVar("T")

LARGEST = 1 << 64  # what unsigned counters of 64 bits have room for
DEEPEST = 50  # levels of nesting in a value of any type


def encode(value: Any) -> Any:
    """A JSON-ready copy of `value`: dataclasses become objects, tuples arrays, enums their values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], data: Any) -> T:
    """Build a `kind` from what `encode` made. Unknown keys are ignored, so an older half can read a newer one.

    Raises WireError, naming the place, when a value does not fit.
    """
    return typing.cast(T, _decode(kind, data, kind.__name__))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, data: Any, place: str) -> Any:
    if kind is Any:
        return _shallow(data, place)
    origin = typing.get_origin(kind)
    if origin is Union:
        if data is None:
            return None
        inner = next(arg for arg in typing.get_args(kind) if arg is not type(None))
        return _decode(inner, data, place)
    if origin is tuple:
        _expect(data, list, place)
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, value, f"{place}[{i}]") for i, value in enumerate(data))
    if origin is dict:
        _expect(data, dict, place)
        item = typing.get_args(kind)[1]
        return {key: _decode(item, value, f"{place}.{key}") for key, value in data.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, place)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError as error:
            raise WireError(f"{place}: {error}") from None
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(_in_range(data, place))
    _expect(data, kind, place)
    return _in_range(data, place) if kind in (int, float) else data


def _decode_dataclass(kind: Any, data: Any, place: str) -> Any:
    _expect(data, dict, place)
    hints = _hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _decode(hints[field.name], data[field.name], f"{place}.{field.name}")
    try:
        return kind(**values)
    except TypeError as error:
        raise WireError(f"{place}: {error}") from None


def _shallow(data: Any, place: str) -> Any:
    if is_deeper(data, DEEPEST):
        raise WireError(f"{place}: nested deeper than {DEEPEST} levels")
    return data


def is_deeper(data: Any, levels: int) -> bool:
    """Whether JSON is nested deeper. Told without recursion, by which whatever takes it apart later does so."""
    level = [data]
    for _ in range(levels):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [value for values in inner for value in values]
    return bool(level)


def _in_range(data: Any, place: str) -> Any:
    """JSON as Python reads it has NaN, infinity and numbers of thousands of digits; who shows them counts on less."""
    if not abs(data) < LARGEST:
        raise WireError(f"{place}: a number out of range")
    return data


def _expect(data: Any, kind: type, place: str) -> None:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise WireError(f"{place}: expected {kind.__name__}, got {type(data).__name__}")
