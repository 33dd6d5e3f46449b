"""What an operator asks of a recovery. Apart from it, because a command line is understood before a way is opened."""

from __future__ import annotations

import dataclasses

ACTION = "server.recover"
PYTHONS, RESTART = "pythons", "restart"


@dataclasses.dataclass(frozen=True)
class Wish:
    """What the operator asks for beyond the default.

    including, including_host: pids to end although they are not ours, the container's and the host's.
    last: "" or the last resort, PYTHONS (every Python process of the container) or RESTART (the container itself).
    """

    including: tuple[int, ...] = ()
    including_host: tuple[int, ...] = ()
    last: str = ""
