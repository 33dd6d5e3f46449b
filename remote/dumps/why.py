"""Why no dump came: what the running processes say about themselves beside the dumps, likeliest cause first."""

from __future__ import annotations

import os

from . import claims

_LIMIT = 64 * 1024  # bytes of one file
_GRAPHS = "A prefill inside a CUDA graph runs no Python: start the server with --disable-cuda-graph."


def no_dump(folder: str) -> str:
    """A remedy in a few sentences."""
    if not os.path.isdir(folder):
        return f"{folder} does not exist: the server was started without SGLANG_HS_DUMP_DIR={folder}, or unpatched."
    live = [said for _, said in claims.live(folder, _LIMIT)]
    if not live:
        return f"No running process says in {folder}/.loaded that it loaded the patch: apply it, restart the server."
    stats = [claims.read(os.path.join(folder, ".stats", f"{said['pid']}.json"), _LIMIT) for said in live]
    refusals = [str(found["refused"]) for found in stats if found.get("refused")]
    if refusals:
        return f"The dumper refuses: {refusals[0]}"
    return f"The patch is loaded (pid {live[0]['pid']}): look for 'hsconsole dumper:' in the server's log. {_GRAPHS}"
