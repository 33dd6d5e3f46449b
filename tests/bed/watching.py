"""A console's link in a process that can be stopped as a laptop is; says each phase and value in a line."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from console.link import Link
from tests.bed.conftest import profile_at


def tell(word: str) -> None:
    print(word, flush=True)


if __name__ == "__main__":
    link = Link(profile_at(Path(sys.argv[1])), lambda state: tell(state.phase.value))
    link.stream("watch.shm", lambda _: tell("watch.shm"))
    link.start()
    threading.Event().wait()
