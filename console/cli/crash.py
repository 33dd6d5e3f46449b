"""A fault of hsconsole itself: the traceback goes to a file, the operator gets one line."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from pathlib import Path

import platformdirs

from console.config import load
from console.errors import OperatorError
from remote.wire import folders
from remote.wire.masking import mask_text, secrets_of


class Crash(OperatorError):
    id = "crash"
    title = "hsconsole itself failed"
    exit_code = 70


def crash(error: BaseException) -> Crash:
    """Write the traceback of `error`, free of secrets, where it can be sent from; returns what to tell of it."""
    secrets = _secrets()
    text = mask_text("".join(traceback.format_exception(error)), secrets)
    try:
        folder = Path(platformdirs.user_log_dir("hsconsole"))
        folders.make(str(folder))
        path = folder / time.strftime("crash-%Y%m%d-%H%M%S.txt")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", errors="replace") as file:
            file.write(text)
        where = f"The details are in {path}; please report them."
    except OSError as failure:
        where = f"The details could not be written ({failure.strerror})."
    return Crash(mask_text(f"{type(error).__name__}: {error}", secrets), where)


def _secrets() -> tuple[str, ...]:
    """Of the operator's environment, and of every profile: whichever was in use."""
    found = set(secrets_of((), os.environ))
    with contextlib.suppress(Exception):
        for name in load.names():
            with contextlib.suppress(Exception):  # it can't be used, so it was not
                server = load.load(name).server
                found.update(secrets_of(server.flags, server.env))
    return tuple(sorted(found, key=len, reverse=True))
