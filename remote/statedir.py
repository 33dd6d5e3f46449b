"""Where the container's half keeps what must outlive the link: server records and logs, originals of patched files."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from typing import Any, Optional

from remote.wire import folders
from remote.wire.errors import OperatorError


class StateDirError(OperatorError):
    id = "state"
    title = "There is no place to keep records"


def state_dir(env: Optional[Mapping[str, str]] = None) -> str:
    """The first usable folder of `candidates`, made if missing. Raises StateDirError, naming each and why it failed."""
    problems = []
    for path in candidates(os.environ if env is None else env):
        problem = _problem(path)
        if not problem:
            return path
        problems.append(f"{path}: {problem}")
    raise StateDirError(
        "; ".join(problems), "Make one of these folders writable, or set XDG_STATE_HOME to one that is."
    )


def write_json(path: str, value: Any) -> None:
    """Replace `path` in one piece, down to the disk, for its owner alone: a reader sees the old value or the new one.

    Raises OSError; then `path` is as it was, and nothing is left beside it.
    """
    folder, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def candidates(env: Mapping[str, str]) -> list[str]:
    """The places tried, in this order. The order never depends on free space: records must be found where they were."""
    places = []
    for base in (env.get("XDG_STATE_HOME", ""), _under_home(env)):
        path = os.path.join(base, "hsconsole")
        if os.path.isabs(path) and path not in places:
            places.append(path)
    return [*places, f"/var/tmp/hsconsole-{os.getuid()}"]


def _under_home(env: Mapping[str, str]) -> str:
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local", "state")


def _problem(path: str) -> str:
    try:
        folders.make(path)
        found = os.stat(path)
        shared = os.lstat(path)
        replaceable = folders.replaceable(path)
    except OSError as error:
        return error.strerror or str(error)
    if path.startswith("/var/tmp/") and not stat.S_ISDIR(shared.st_mode):
        return "is not a folder of its own"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    if replaceable:
        return "others may put another in its place"
    return "" if os.access(path, os.W_OK | os.X_OK) else "is not writable"
