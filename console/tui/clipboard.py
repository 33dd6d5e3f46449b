"""Copying: by the terminal (OSC 52), and by macOS's own command, since its Terminal ignores that sequence."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from typing import Any

from textual.app import App


def put(app: App[Any], text: str) -> None:
    app.copy_to_clipboard(text)
    pbcopy = shutil.which("pbcopy") if sys.platform == "darwin" else None
    if pbcopy:
        threading.Thread(target=_pipe, args=(pbcopy, text), daemon=True).start()


def _pipe(command: str, text: str) -> None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # the terminal has it too
        subprocess.run([command], input=text.encode(), check=False, timeout=5)
