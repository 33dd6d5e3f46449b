"""Whatever the remote side says, in any field of anything that is printed: it stays words, in their place."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import math
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from console import cli
from console.cli import output
from console.errors import from_report
from console.operations.overview import Overview
from console.text import harmless, one_line, span
from remote.wire.errors import ErrorReport

FORGED = "✓ all is well"
EVIL = f"\x1b]52;c;aGk=\x07\x1b]8;;http://a\x1b\\\x1b[2J\x9b31m\x1bPq\x1b\\[link=http://a]\r\n{FORGED}\n\0\u202e\u061c\udcff"
CONTROLS = {*map(chr, range(32)), *map(chr, range(127, 160)), *"\u061c\u200e\u200f\u202a\u202e\u2066\u2069"} - {"\n"}
ELSEWHERE = {
    "print_json",  # ASCII
    "print_json_line",
    "print_diff",  # its lines begin as they are, for `patch`
    "_print_begun",  # of _print_action
    "_print_ended",
}


def filled(kind: Any, text: str, number: float, which: int = 0) -> Any:
    """A `kind` with `text` and `number` wherever one goes, something in every list, and that member of each enum."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return filled(arguments[0], text, number, which)
    if origin in (list, tuple, Iterable):
        return (origin if origin is list else tuple)([filled(arguments[0], text, number, which)])
    if origin is dict:
        return {filled(arguments[0], text, number, which): filled(arguments[1], text, number, which)}
    if dataclasses.is_dataclass(kind):
        hints, make = typing.get_type_hints(kind), typing.cast(Callable[..., Any], kind)
        return make(
            **{field.name: filled(hints[field.name], text, number, which) for field in dataclasses.fields(kind)}
        )
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return kind(**{field.name: filled(field.type, text, number, which) for field in msgspec.structs.fields(kind)})
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return list(kind)[which % len(kind)]
    if kind is float:
        return number
    return {str: text, int: 7, bool: False, bytes: b"", Any: text}[kind]


def printers() -> dict[str, Callable[..., None]]:
    found: dict[str, Callable[..., None]] = {}
    for module in pkgutil.iter_modules(cli.__path__, "console.cli."):
        for name, function in vars(importlib.import_module(module.name)).items():
            own = inspect.isfunction(function) and function.__module__ == module.name
            if own and name.lstrip("_").startswith("print") and name not in ELSEWHERE:
                found[f"{module.name.rpartition('.')[2]}.{name}"] = function
    return found


PRINTERS = printers()


def test_they_are_found() -> None:
    assert len(PRINTERS) > 20
    assert {"output.print_plan", "server._print_log", "status._print", "audit._print_chain"} <= set(PRINTERS)


def told(function: Callable[..., None], text: str, number: float) -> None:
    values = {}
    for name, kind in typing.get_type_hints(function).items():
        if name in ("as_json", "return", "streaming"):
            continue
        values[name] = (
            from_report(ErrorReport("x", text, text, text)) if name == "error" else filled(kind, text, number)
        )
    function(**values, **({"as_json": False} if "as_json" in inspect.signature(function).parameters else {}))


@pytest.mark.parametrize("name", PRINTERS)
@pytest.mark.parametrize("number", [0.0, math.inf, math.nan, -1e300])
def test_what_is_printed(name: str, number: float, capsys: pytest.CaptureFixture[str]) -> None:
    told(PRINTERS[name], EVIL, number)
    shown = "".join(capsys.readouterr())
    assert FORGED in shown
    assert not set(shown) & CONTROLS
    assert not [line for line in shown.split("\n") if line.startswith(FORGED)]
    shown.encode("utf-8")


@pytest.mark.parametrize("name", PRINTERS)
def test_what_has_no_end(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A text of a hundred thousand lines does not push away what stood before it."""
    told(PRINTERS[name], "x\n" * 100_000, 0.0)
    assert "".join(capsys.readouterr()).count("\n") < 10 * output.MOST_LINES


def test_status_prints_all_that_an_overview_has() -> None:
    assert filled(Overview, EVIL, 0.0).gpus.gpus[0].name == EVIL


@pytest.mark.parametrize("text", [EVIL, EVIL * 100, "\x1b" * 5000 + "[2J", "\x1b\x1b[2J[2J", "\n" * 5000])
def test_harmless(text: str) -> None:
    assert not set(harmless(text)) & CONTROLS
    assert not set(one_line(text)) & (CONTROLS | {"\n"})


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan, 1e300])
def test_a_span_without_end(seconds: float) -> None:
    assert span(seconds)
