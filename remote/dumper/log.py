"""The dumper's voice in the server's log: lines on stderr that start with `hsconsole dumper:`."""

from __future__ import annotations

import sys
import threading

_said: set[str] = set()
_lock = threading.Lock()


def say(text: str) -> None:
    try:
        sys.stderr.write(f"hsconsole dumper: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # a closed or full log must not stop the server
        pass


def once(text: str) -> None:
    """Say `text` unless it was said before by this process."""
    with _lock:
        if text in _said:
            return
        _said.add(text)
    say(text)
