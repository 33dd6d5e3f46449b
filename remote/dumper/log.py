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


def once(what: str, detail: str = "") -> None:
    """Say `what`, with the detail of this first time, unless this process said it before."""
    with _lock:
        if what in _said:
            return
        _said.add(what)
    say(f"{what}. {detail}" if detail else what)
