"""Whether an action can be used now, and why not: what greys a key also explains it."""

from __future__ import annotations

from console.actions import Action
from console.link import LinkPhase
from console.tui.picture import Picture

LINK_WORDS = {
    LinkPhase.CONNECTING: "the link is not up yet",
    LinkPhase.STALE: "the container does not answer right now",
    LinkPhase.LOST: "the link is lost",
    LinkPhase.REFUSED: "the host refused the link",
    LinkPhase.CLOSED: "the link is closed",
}


def why_not(action: Action, picture: Picture, running: str) -> str:
    """Why `action` can't be used now; empty when it can. running: the label of the action that runs, if one does."""
    profile = picture.profile
    if profile.read_only and (action.changes or action.leaves_trace):
        return f"profile {profile.name!r} is read-only (read_only = true in its file)"
    if action.needs_link and not picture.live:
        return f"{LINK_WORDS[picture.link.phase]}; {action.label!r} asks the container"
    if action.id == "link.retry" and picture.link.phase not in (LinkPhase.LOST, LinkPhase.REFUSED):
        return "the link is not waiting to try again"
    if running and (action.changes or action.leaves_trace):
        return f"{running!r} is running; one action at a time"
    return ""
