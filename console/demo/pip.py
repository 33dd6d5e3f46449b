"""Runs pip and tells how it is doing; says in words what went wrong."""

from __future__ import annotations

import collections
import subprocess
from collections.abc import Callable
from pathlib import Path

from console.errors import DemoError

RETRYING = "Retrying (Retry("  # an index that doesn't answer: pip waits for it anew at every package
# what pip or the system prints, and what the operator can do about it
REMEDIES = (
    (("No space left on device",), "Free some disk space and start again."),
    (
        (RETRYING, "Temporary failure in name resolution", "Failed to establish a new connection"),
        "pip can't reach its package index: check the network, or point PIP_INDEX_URL at a mirror, and start again.",
    ),
    (
        ("No matching distribution found", "Could not find a version"),
        "The package index has no build for this Python and machine: use Python 3.11 to 3.13 on Linux x86-64.",
    ),
)


def install(python: Path, arguments: list[str], on_line: Callable[[str], None]) -> None:
    """Run `python -m pip install`. on_line: each line it prints. Raises DemoError with its last lines."""
    command = [str(python), "-I", "-m", "pip", "--no-input", "--disable-pip-version-check", "install"]
    command += ["--progress-bar", "off", *arguments]
    last: collections.deque[str] = collections.deque(maxlen=8)
    problems: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                last.append(line.rstrip())
                problems += [remedy for signs, remedy in REMEDIES if any(sign in line for sign in signs)]
                on_line(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        what = f"pip ended with status {process.returncode}; its last lines:\n" + "\n".join(last)
        raise DemoError(what, problems[0] if problems else "Start again: what was downloaded is kept.")
