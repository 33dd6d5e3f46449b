"""Why no dump came: what the running processes say about themselves beside the dumps, likeliest cause first."""

from __future__ import annotations

import json
import os
from typing import Any

from remote import processes
from remote.processes import Identity

from .files import read_small

_LIMIT = 64 * 1024  # bytes of one file
_GRAPHS = "A prefill inside a CUDA graph runs no Python: start the server with --disable-cuda-graph."


def no_dump(folder: str) -> str:
    """A remedy in a few sentences."""
    if not os.path.isdir(folder):
        return f"{folder} does not exist: the server was started without SGLANG_HS_DUMP_DIR={folder}, or unpatched."
    claims = _live(folder)
    if not claims:
        return f"No running process says in {folder}/.loaded that it loaded the patch: apply it, restart the server."
    stats = [_object(os.path.join(folder, ".stats", f"{claim['pid']}.json")) for claim in claims]
    refusals = [str(found["refused"]) for found in stats if found.get("refused")]
    if refusals:
        return f"The dumper refuses: {refusals[0]}"
    return f"The patch is loaded (pid {claims[0]['pid']}): look for 'hsconsole dumper:' in the server's log. {_GRAPHS}"


def _live(folder: str) -> list[dict[str, Any]]:
    """What each process that lives says it loaded."""
    loaded = os.path.join(folder, ".loaded")
    try:
        names = sorted(os.listdir(loaded))
    except OSError:
        return []
    claims = [_object(os.path.join(loaded, name)) for name in names if name.endswith(".json")]
    return [claim for claim in claims if _lives(claim)]


def _lives(claim: dict[str, Any]) -> bool:
    pid, start = claim.get("pid"), claim.get("start_ticks")
    return isinstance(pid, int) and isinstance(start, int) and processes.alive(Identity(pid, start)) is not None


def _object(path: str) -> dict[str, Any]:
    try:
        found = json.loads(read_small(path, _LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
