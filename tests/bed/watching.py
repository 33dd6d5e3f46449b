"""A console's link in a process that can be stopped as a laptop is; says each phase and value in a line."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from console.link import Link, LinkState
from tests.bed.conftest import profile_at


class Teller:
    def on_link(self, state: LinkState) -> None:
        print(state.phase.value, flush=True)

    def on_event(self, stream: str, value: Any) -> None:
        print(stream, flush=True)


if __name__ == "__main__":
    Link(profile_at(Path(sys.argv[1])), Teller(), streams=("watch.shm",)).start()
    threading.Event().wait()
