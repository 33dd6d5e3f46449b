"""`HSCONSOLE_<SECTION>_<KEY>`: values that win over the profile's file."""

from __future__ import annotations

import difflib
import shlex
import tomllib
import typing
from collections.abc import Mapping
from typing import Any

from console.config import schema
from console.errors import ConfigError

PREFIX = "HSCONSOLE_"
FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
WORDS = tuple[str, ...]
EXAMPLES: dict[Any, str] = {
    int: "a whole number",
    bool: "true or false",
    tuple: "3,31,59",
    WORDS: 'words with their quotes closed, or ["--flag", "value"]',
    dict: '{ NAME = "value" }',
}


def overrides(environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """What the environment says, shaped like a profile's TOML, and for each dotted key the variable it came from.

    Raises ConfigError for a variable of a known section whose key is not known or whose value does not fit.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for variable in sorted(environ):
        place = _place(variable)
        if place is None:
            continue
        section, key, kind = place
        value = _read(variable, environ[variable], kind)
        (values.setdefault(section, {}) if section else values)[key] = value
        sources[f"{section}.{key}".lstrip(".")] = f"the environment's {variable}"
    return values, sources


def _place(variable: str) -> tuple[str, str, Any] | None:
    """Section, key and type that a variable stands for; None when it is none of ours."""
    if not variable.startswith(PREFIX):
        return None
    rest = variable[len(PREFIX) :].lower()
    section, _, key = rest.partition("_")
    struct = schema.table(section)
    if struct is not None:
        allowed = schema.fields(struct)
        if key in allowed:
            return section, key, allowed[key]
        raise _not_known(variable, section, allowed)
    if rest in schema.fields() and schema.table(rest) is None:
        return "", rest, schema.fields()[rest]
    return None


def _not_known(variable: str, section: str, allowed: Mapping[str, Any]) -> ConfigError:
    names = [f"{PREFIX}{section}_{key}".upper() for key in allowed]
    near = difflib.get_close_matches(variable, names, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return ConfigError(
        f"the environment's {variable} stands for no key of [{section}]", f"{hint}Allowed: {', '.join(names)}"
    )


def _read(variable: str, text: str, kind: Any) -> Any:
    """`text` as the key's type: lists as words or numbers, tables as TOML's inline tables."""
    wanted = next((option for option in typing.get_args(kind) if _optional(kind) and option is not type(None)), kind)
    shape = typing.get_origin(wanted) or wanted
    try:
        if shape is tuple:
            return _list(text, typing.get_args(wanted)[0])
        if shape is dict:
            return tomllib.loads(f"value = {text}")["value"]
        if shape is bool:
            return FLAGS[text.strip().lower()]
        return shape(text)
    except (ValueError, KeyError):  # TOMLDecodeError is a ValueError
        told = "something else" if shape is dict or wanted == WORDS else repr(text)  # both may hold secrets
        allowed = EXAMPLES[wanted if wanted in EXAMPLES else shape]
        raise ConfigError(f"the environment's {variable}: found {told}; allowed: {allowed}") from None


def _list(text: str, item: Any) -> list[Any]:
    if text.lstrip().startswith("["):
        return list(tomllib.loads(f"value = {text}")["value"])
    if item is int:
        return [int(part) for part in text.split(",")]
    return shlex.split(text)


def _optional(kind: Any) -> bool:
    return type(None) in typing.get_args(kind)
