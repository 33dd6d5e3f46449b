"""A host not seen before: its key's fingerprint, asked once. Cancel is the safe answer, and the first."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from console.tui import ink
from console.tui.screens.page import Dialog
from console.tui.text import plain
from console.tui.widgets.footer import KeyFooter


class HostKeyScreen(Dialog[bool]):
    AUTO_FOCUS = "#cancel"

    def __init__(self, host: str, kind: str, fingerprint: str) -> None:
        super().__init__()
        self.host = host
        self.kind = kind
        self.fingerprint = fingerprint

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="-asks"):
            yield Static(plain("This host is not known yet", ink.STRONG), id="dialog-title")
            with Vertical(id="dialog-body"):
                yield Static(self._words())
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Trust it and connect", id="trust", variant="warning", compact=True)
        yield KeyFooter()

    def _words(self) -> Content:
        return Content.assemble(
            ("host         ", ink.MUTED),
            plain(self.host, ink.STRONG),
            ("\nkey          ", ink.MUTED),
            plain(self.kind),
            ("\nfingerprint  ", ink.MUTED),
            plain(self.fingerprint, ink.KEY),
            ("\n\nCompare the fingerprint with the host's own, seen on its console:\n", ink.MUTED),
            ("ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", ink.PLAIN),
            ("\n\nTrusted, it is stored in known_hosts and not asked again.", ink.MUTED),
        )

    @on(Button.Pressed)
    def _answer(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "trust")
