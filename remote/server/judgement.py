"""The last verdicts on a server, kept beside its record and good for as long as that process lives.

CANARY: do its dumps mean what they should? REQUESTS: does it answer any?
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any, Optional

from remote.processes import Identity
from remote.server import find
from remote.server.record import boot_id
from remote.statedir import state_dir, write_json
from remote.wire.codec import decode, encode
from remote.wire.errors import OperatorError
from remote.wire.plan import Verdict
from remote.wire.server import Judgement

CANARY, REQUESTS = "canary", "requests"


def serving(port: int) -> Optional[Identity]:
    """Which process is the server of `port` now."""
    parent = find.parent(port)
    return parent.identity if parent is not None else None


def keep(port: int, server: Optional[Identity], verdict: Verdict, by: str = CANARY) -> None:
    """Note the verdict, unless another server runs by now. Where it can't be written, nothing is lost but that."""
    if server is None or serving(port) != server:
        return
    kept = {**_key(server), "judgement": encode(Judgement(verdict, time.time())), "uptime": _uptime()}
    with contextlib.suppress(OSError, OperatorError):
        write_json(os.fspath(_path(port, by)), kept)


def last(port: int, server: Identity, by: str = CANARY) -> Optional[Judgement]:
    """What was noted of this very process; None when nothing was, or it can't be read.

    Its age is right, and so its time by the clock of now, however that was set since.
    """
    try:
        kept = json.loads(_path(port, by).read_text(encoding="utf-8"))
        found = decode(Judgement, kept["judgement"]) if _key(server).items() <= kept.items() else None
        return found and dataclasses.replace(found, at=time.time() - (_uptime() - kept["uptime"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OperatorError):
        return None


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _key(server: Identity) -> dict[str, Any]:
    return {"pid": server.pid, "start_ticks": server.start_ticks, "boot_id": boot_id()}


def _path(port: int, by: str) -> Path:
    return Path(state_dir()) / f"{by}-{port}.json"
