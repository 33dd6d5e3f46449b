"""Screen tests: nothing waits for more values to come, and the operator's own theme stays out."""

from __future__ import annotations

import pytest
from textual import _wait

from console.operations import gpuholders
from console.tui import app


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "COALESCE", 0.001)
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.004)  # how long Pilot sleeps to see whether all is quiet
    monkeypatch.setattr(_wait, "SLEEP_IDLE", 0.001)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def _no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Proxmox host stands behind these profiles; a test that wants one says what it sees."""
    monkeypatch.setattr(gpuholders, "ask", lambda *_: None)
