"""A question of the link's thread, which waits while the operator is asked on the UI's."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from console.tui.screens.host_key import HostKeyScreen

if TYPE_CHECKING:
    from console.tui.app import HsConsoleApp


class HostKeys:
    """Is a host's key trusted? Not when the screen ends before there is an answer."""

    def __init__(self, app: HsConsoleApp) -> None:
        self._app = app
        self._answers: list[Future[bool]] = []
        self._closed = False

    def ask(self, host: str, kind: str, fingerprint: str) -> bool:
        """In the link's thread."""
        answer: Future[bool] = Future()
        self._answers.append(answer)  # before the look at `_closed`: one of the two sees the other
        if self._closed or not self._app.call_later(self._show, host, kind, fingerprint, answer):
            return False
        return answer.result()

    def close(self) -> None:
        self._closed = True
        for answer in self._answers:
            _settle(answer, trusted=False)

    def _show(self, host: str, kind: str, fingerprint: str, answer: Future[bool]) -> None:
        screen = HostKeyScreen(host, kind, fingerprint)
        self._app.push_screen(screen, lambda trusted: _settle(answer, trusted=bool(trusted)))


def _settle(answer: Future[bool], *, trusted: bool) -> None:
    if not answer.done():
        answer.set_result(trusted)
