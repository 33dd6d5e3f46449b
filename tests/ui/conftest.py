"""Screen tests: nothing waits for more values to come, and the operator's own theme stays out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual import _wait

from console.operations import gpuholders, recover
from console.operations.recovery_wish import Wish
from console.tui import app
from remote.wire.plan import Outcome, Plan
from tests.ui import scenes


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


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that only the container's restart frees."""

    def plan(_: object, __: object, wish: Wish) -> Plan:
        return scenes.PLANS[wish.last]

    def run(_: object, __: object, confirmed: Plan, on_step: Callable[[object], None], ___: object) -> Outcome:
        for step in scenes.RECOVER_STEPS:
            on_step(step)
        return scenes.RECOVERED if confirmed is scenes.RESTART else scenes.NOT_ENOUGH

    monkeypatch.setattr(recover, "plan", plan)
    monkeypatch.setattr(recover, "run", run)
