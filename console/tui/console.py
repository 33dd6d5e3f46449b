"""What a screen may ask of the app, and what the app needs of a link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from console.config.profile import Profile
from console.link import OnLink
from console.operations.calls import Agent
from console.ssh import AskHostKey
from console.tui.picture import Picture


class LinkLike(Agent, Protocol):
    """`console.link.Link`, or what stands in for it in a test."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def retry_now(self) -> None: ...

    def stream(self, name: str, on_event: Callable[[Any], None], **args: Any) -> object: ...


LinkFactory = Callable[[Profile, OnLink, AskHostKey], LinkLike]


class Console(Protocol):
    """The app, as the screens see it."""

    picture: Picture

    @property
    def agent(self) -> Agent:
        """The link, to ask the agent through. Raises LinkLost while there is none."""

    def why_not(self, action: str) -> str:
        """Why an action can't be used now; empty when it can."""

    def do(self, action: str) -> None:
        """Use an action, or say why not."""

    def refuse(self, key: str) -> None:
        """Say why `key` does nothing on this screen, where it does something on another."""

    def copy(self, text: str) -> None: ...

    def look_at_patch(self) -> object:
        """Ask anew how the patch is; the picture has the answer later."""
