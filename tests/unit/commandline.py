"""`hsconsole` as it is typed, in this process."""

from __future__ import annotations

from console.cli import main


def exit_status(*words: str) -> int:
    """Of `hsconsole` with these arguments, whichever way it ends."""
    try:
        return main.run(list(words))
    except SystemExit as ended:
        return int(ended.code or 0)
