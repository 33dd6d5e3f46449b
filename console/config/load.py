"""Finding and reading profiles: `profiles/NAME.toml` in the configuration folder, then the environment over it."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from console.config import checks, environment, schema
from console.config.checks import Problem
from console.config.profile import Profile
from console.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")  # what a file can be called, and one beside it


def folder() -> Path:
    """Where profiles are: `HSCONSOLE_CONFIG_DIR` or the platform's own place, and `profiles` in it."""
    base = os.environ.get("HSCONSOLE_CONFIG_DIR") or platformdirs.user_config_dir("hsconsole", appauthor=False)
    return Path(base) / "profiles"


def path_of(name: str) -> Path:
    """The file of profile `name`, there or not. Raises ConfigError when no profile can have this name."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name!r} can't be a profile's name", "Names are of letters, digits, dot, - and _.")
    return folder() / f"{name}.toml"


def names() -> tuple[str, ...]:
    """The profiles there are, sorted."""
    try:
        return tuple(sorted(path.stem for path in folder().glob("*.toml") if NAME.fullmatch(path.stem)))
    except OSError as error:
        raise ConfigError(f"{folder()} can't be listed: {error.strerror}") from None


def load(name: str | None = None) -> Profile:
    """The profile `name`, else HSCONSOLE_PROFILE, else the only one there is. Raises ConfigError."""
    chosen = name or os.environ.get("HSCONSOLE_PROFILE") or _only()
    path = path_of(chosen)
    data = _parse(path, chosen)
    overrides, sources = environment.overrides(os.environ)
    merged = _merge(data, overrides)
    profile = _convert(merged, path, sources)
    _refuse(path, checks.problems(profile), sources)
    return msgspec.structs.replace(profile, name=chosen)


def _only() -> str:
    found = names()
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(
            f"there is no profile in {folder()}", "`hsconsole init` writes one; `hsconsole demo` needs none."
        )
    raise ConfigError(
        f"there are {len(found)} profiles and none was chosen: {', '.join(found)}",
        "Choose with --profile NAME or HSCONSOLE_PROFILE.",
    )


def _parse(path: Path, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        near = difflib.get_close_matches(name, names(), 1)
        there = f"Did you mean {near[0]}? " if near else ""
        listed = ", ".join(names()) or "none; `hsconsole init` writes one"
        raise ConfigError(f"there is no profile {name!r} ({path})", f"{there}Profiles: {listed}.") from None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})", "Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", 'Text needs quotes: host = "ct129".') from None


def _merge(data: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(data)
    for key, value in overrides.items():
        below = merged.get(key)
        merged[key] = {**below, **value} if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _convert(data: dict[str, Any], path: Path, sources: Mapping[str, str]) -> Profile:
    _refuse(path, schema.unknown_keys(data), sources)
    try:
        return msgspec.convert(data, Profile)
    except msgspec.ValidationError as error:
        _refuse(path, [schema.explain(str(error), data)], sources)
        raise


def _refuse(path: Path, found: Iterator[Problem] | list[Problem], sources: Mapping[str, str]) -> None:
    """Raise one ConfigError that tells of all problems, each with the place its value came from."""
    told = [f"{sources.get(problem.key, path)}: {problem}" for problem in found]
    if told:
        raise ConfigError("\n".join(told), "Correct what is named here; nothing was changed.")
