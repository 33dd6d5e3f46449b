"""Locks between processes that vanish with their holder, however it ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from console.errors import DemoError
from remote.wire.locks import take


@contextlib.contextmanager
def exclusive(path: Path, purpose: str, waiting: Callable[[str], None], patience: float) -> Iterator[None]:
    """Hold the lock at `path`; while another process has it, say so once a second to `waiting`.

    patience: seconds to wait. Raises DemoError, naming the holder's pid, when they are over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        deadline = time.monotonic() + patience
        while not take(file.fileno()):
            file.seek(0)
            holder = f"process {file.read().strip() or '?'} is {purpose}"
            if time.monotonic() > deadline:
                raise DemoError(f"{holder}, and did not end in {patience:.0f} s", "End it, or try again later.")
            waiting(holder)
            time.sleep(1)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
