"""What follows a start, whichever face asked for it: once the server is ready, the canary proves what it dumps."""

from __future__ import annotations

from console.config.profile import Profile
from console.operations.verdicts import NAMES
from remote.wire.server import Phase, ServerState


def why_no_canary(profile: Profile, server: ServerState) -> str:
    """Why none follows for this server; empty where one does."""
    if server.phase is not Phase.READY:
        return f"the server is not ready: {server.phase.value}"
    if server.patch_loaded is None:
        return "this server dumps nothing: it has loaded no patch"
    if profile.read_only:
        return f"profile {profile.name!r} is read-only"
    if server.canary is not None:
        return f"there was one since this start: {NAMES[server.canary.verdict]}"
    return ""
