"""A fault of hsconsole itself: the traceback goes to a file, the operator gets one line."""

from __future__ import annotations

import time
import traceback
from pathlib import Path

import click
import platformdirs

EXIT_CRASH = 70


def report_crash(error: BaseException) -> int:
    """Write the traceback of `error` where it can be sent from; returns the exit status."""
    text = "".join(traceback.format_exception(error))
    try:
        folder = Path(platformdirs.user_log_dir("hsconsole"))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / time.strftime("crash-%Y%m%d-%H%M%S.txt")
        path.write_text(text)
        path.chmod(0o600)
        where = f"The details are in {path}; please report them."
    except OSError as failure:
        where = f"The details could not be written ({failure.strerror})."
    click.echo(f"hsconsole itself failed: {type(error).__name__}: {error}\n{where}", err=True)
    return EXIT_CRASH
