"""Ending a call early, without losing its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancel:
    """Handed to a call; `ask`, from any thread, tells the agent to end it. The answer still comes, and says how far."""

    def __init__(self) -> None:
        self.asked = False
        self._lock = threading.Lock()
        self._tell: Callable[[], object] = lambda: None

    def ask(self) -> bool:
        """Returns at once, however slow the line is. False when it was asked before."""
        with self._lock:
            if self.asked:
                return False
            self.asked, tell = True, self._tell
        threading.Thread(target=tell, name="cancel", daemon=True).start()
        return True

    def bind(self, tell: Callable[[], object]) -> None:
        """By the call: how the agent is told, once it is asked for."""
        with self._lock:
            self._tell, asked = tell, self.asked
        if asked:
            tell()
