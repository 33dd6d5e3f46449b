"""What keys a profile may have, and msgspec's complaints in the words of one who edits TOML."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from console.config.checks import Problem
from console.config.profile import Profile
from remote.wire.masking import mask_text

NOT_KEYS = frozenset({"name"})  # the file's name says it
PLACE = re.compile(r" - at `\$\.?(.*)`$")
MISSING = re.compile(r"missing required field `([^`]*)`")
EXPECTED = re.compile(r"Expected `(.*?)`")
WORDS = {
    "str": "text in quotes",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def fields(struct: type[msgspec.Struct] = Profile) -> dict[str, Any]:
    """The keys of one table and their types."""
    hints = typing.get_type_hints(struct)
    return {field.name: hints[field.name] for field in msgspec.structs.fields(struct) if field.name not in NOT_KEYS}


def table(name: str) -> type[msgspec.Struct] | None:
    """The type of the table `name`, None when that key is no table."""
    kind = fields().get(name)
    for option in (kind, *typing.get_args(kind)):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def unknown_keys(data: dict[str, Any]) -> Iterator[Problem]:
    """Each key of `data` that a profile does not have."""
    yield from _unknown("", data, fields())
    for name, value in data.items():
        struct = table(name)
        if struct is not None and isinstance(value, dict):
            yield from _unknown(f"{name}.", value, fields(struct))


def explain(complaint: str, data: dict[str, Any]) -> Problem:
    """A ValidationError's text as a Problem, with what was found there."""
    match = PLACE.search(complaint)
    place = match[1] if match else ""
    missing = MISSING.search(complaint)
    if missing:
        key = f"{place}.{missing[1]}".lstrip(".")
        return Problem(key, "nothing", "it must be given")
    if place == "server.env[...]":
        place = f"server.env.{_not_text(data)}"
    return Problem(place, _found(place, data), _allowed(complaint))


def _not_text(data: dict[str, Any]) -> str:
    """The variable of server.env whose value is none: msgspec does not say which."""
    return next((name for name, value in data["server"]["env"].items() if not isinstance(value, str)), "?")


def _unknown(prefix: str, data: dict[str, Any], allowed: dict[str, Any]) -> Iterator[Problem]:
    for key in data:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            yield Problem(prefix + key, "a key that is not known" + hint, ", ".join(allowed))


def _allowed(complaint: str) -> str:
    expected = EXPECTED.search(complaint)
    if not expected:
        return complaint
    return " or ".join(WORDS.get(kind, kind) for kind in expected[1].split(" | ") if kind != "null")


def _found(place: str, data: Any) -> str:
    """The value at `place`; only its type where it may hold secrets: the server's environment and flags, and tables."""
    for part in re.findall(r"[^.\[\]]+", place):
        try:
            data = data[int(part)] if isinstance(data, list) else data[part]
        except (KeyError, ValueError, IndexError, TypeError):
            return "something else"
    secret = place.startswith(("server.env", "server.flags")) or isinstance(data, list | dict)
    return type(data).__name__ if secret else mask_text(repr(data))
