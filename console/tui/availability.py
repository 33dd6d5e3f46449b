"""Whether an action can be used now, and why not: what greys a key also explains it."""

from __future__ import annotations

from console.actions import ACTIONS, ANYWHERE, LOG, MAIN, PAGE, PATCH, RECOVERY, Action
from console.link import LinkPhase
from console.tui.picture import Picture

LINK_WORDS = {
    LinkPhase.CONNECTING: "the link is not up yet",
    LinkPhase.STALE: "the container does not answer right now",
    LinkPhase.LOST: "the link is lost",
    LinkPhase.REFUSED: "the host refused the link",
    LinkPhase.CLOSED: "the link is closed",
}

PLACES = {
    MAIN: "on the main screen (esc)",
    PATCH: "on the patch page (p)",
    LOG: "in the log (l)",
    RECOVERY: "after a recovery that was not enough (z)",
    PAGE: "on a page, such as a request's (enter)",
}


def why_not(action: Action, picture: Picture, running: str) -> str:
    """Why `action` can't be used now; empty when it can. running: the label of the action that runs, if one does."""
    profile = picture.profile
    if profile.read_only and action.acts:
        return f"profile {profile.name!r} is read-only (read_only = true in its file)"
    if action.needs_link and not picture.live:
        return f"{LINK_WORDS[picture.link.phase]}; {action.label!r} asks the container"
    if action.id == "link.retry" and picture.link.phase not in (LinkPhase.LOST, LinkPhase.REFUSED):
        return "the link is not waiting to try again"
    if running and action.acts:
        return f"{running!r} is running; one action at a time"
    return ""


def elsewhere(key: str) -> str:
    """Where `key` does something, for a screen that has no such key; empty where it does nothing anywhere."""
    places = [f"{action.label}: {PLACES[action.where]}" for action in of_key(key)]
    return "; ".join(places)


def of_key(key: str) -> list[Action]:
    """The actions that `key` is for, on one screen or another."""
    return [action for action in ACTIONS if action.key == key and action.where != ANYWHERE]
