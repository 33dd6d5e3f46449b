"""Writing a profile: commented TOML that `load` reads back the same, whole or not at all, for its owner's eyes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from console.config import checks, load
from console.config.profile import Profile
from console.errors import ConfigError
from remote.wire import folders

COMMENTS = {
    "read_only": "true: look, but refuse every action",
    "stood_in": "what a demo can't have for real",
    "container": "The container that SGLang runs in, reached by ssh.",
    "container.host": "a name from ~/.ssh/config, or an address",
    "container.python": "the Python of SGLang's environment",
    "container.user": "wins over ~/.ssh/config, like port and key",
    "container.ssh_config": "read instead of ~/.ssh/config",
    "proxmox": "The host of the container, for what the container can't do itself.",
    "proxmox.vmid": "as in `pct exec VMID`",
    "server": "The SGLang server.",
    "server.model_path": "a folder in the container",
    "server.host": "the address it listens on",
    "server.tp": "tensor parallel size: GPUs",
    "server.flags": "more of SGLang's own flags, in the spelling of any release",
    "server.env": "Its environment.",
    "dump": "Where hidden states go, and which.",
    "dump.folder": "in shared memory: the dumps are large and short-lived",
    "dump.layers": "captured before these layers, 0-based",
    "dump.eagle_layer_ids": "the layers whose outputs are captured: one less each than `layers`",
}


def render(profile: Profile) -> str:
    """The profile as TOML, with a comment beside what needs one. Keys that are None are left out."""
    document = msgspec.to_builtins(profile)
    document.pop("name")
    plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
    lines = list(_keys("", {key: value for key, value in plain.items() if value not in (None, [], ())}))
    for name, table in document.items():
        if isinstance(table, dict):
            lines += ["", *_table(name, table)]
    return "\n".join(lines).lstrip("\n") + "\n"


def refuse(profile: Profile) -> None:
    """Raise ConfigError when `load` would not take `profile`."""
    wrong = [str(problem) for problem in checks.problems(profile)]
    if wrong:
        raise ConfigError("\n".join(wrong), "Nothing was written.")


def must_be_free(name: str) -> None:
    """Raise ConfigError when no new profile can have `name`."""
    if is_taken(name):
        raise _taken(load.path_of(name))


def is_taken(name: str) -> bool:
    """Whether there is a profile `name`. Raises ConfigError when that can't be told."""
    path = load.path_of(name)
    try:
        return path.exists()
    except OSError as error:
        raise ConfigError(f"{path} can't be looked at: {error.strerror}") from None


def write(profile: Profile, *, overwrite: bool = False) -> Path:
    """Write `profile` to the file its name says, mode 600. Raises ConfigError when it exists, unless `overwrite`."""
    refuse(profile)
    path = load.path_of(profile.name).resolve()  # a symlink's file is replaced, not the link
    try:
        folders.make(str(path.parent))
        _place(render(profile), path, overwrite=overwrite)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}") from None
    return path


def _taken(path: Path) -> ConfigError:
    return ConfigError(f"{path} exists already", "Choose another --name, or replace it with --force.")


def _place(text: str, path: Path, *, overwrite: bool) -> None:
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            Path(aside).replace(path)
        else:
            os.link(aside, path)  # unlike a rename, this fails when the name is taken
    finally:
        Path(aside).unlink(missing_ok=True)


def _table(name: str, table: dict[str, Any]) -> Iterator[str]:
    if name in COMMENTS:
        yield f"# {COMMENTS[name]}"
    yield f"[{'.'.join(map(_key, name.split('.')))}]"
    yield from _keys(f"{name}.", {key: value for key, value in table.items() if not isinstance(value, dict)})
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield ""
            yield from _table(f"{name}.{key}", value)


def _keys(prefix: str, values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if value is not None:
            comment = COMMENTS.get(prefix + key)
            yield f"{_key(key)} = {_value(value)}" + (f"  # {comment}" if comment else "")


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's too
    return str(value)
