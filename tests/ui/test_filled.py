"""U01 for every value there is: whatever the container sends, with any text in any field, is shown harmlessly."""

from __future__ import annotations

from typing import Any

import pytest

from console.actions import ACTIONS, MAIN
from console.link import LinkPhase
from remote.wire.dumps import Canary, DumpDetail, DumpsChange, DumpTest, VerifySummary
from remote.wire.host import Survey
from remote.wire.patch import PatchStatus
from remote.wire.plan import Outcome, Plan
from remote.wire.server import LogLines, Preflight, ServerState
from remote.wire.telemetry import GpuSnapshot, ShmSnapshot
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, on_stage, toasts, words
from tests.unit.security.test_shown import CONTROLS, EVIL, filled

STREAMS: dict[str, Any] = {
    "server": ServerState,
    "gpus": GpuSnapshot,
    "shm": ShmSnapshot,
    "dumps": DumpsChange,
    "log": LogLines,
}
ANSWERS: dict[str, Any] = {
    "patch.status": PatchStatus,
    "server.preflight": Preflight,
    "dumps.test": DumpTest,
    "dumps.show": DumpDetail,
    "canary": Canary,
    "dumps.verify": VerifySummary,
    "survey": Survey,
    **{f"plan {action.id}": Plan for action in ACTIONS},
    f"run {EVIL}": Outcome,
}


def stage(which: int, number: float) -> Stage:
    def scene(link: FakeLink) -> None:
        link.be(LinkPhase.LIVE)
        link.say(**{name: filled(kind, EVIL, number, which) for name, kind in STREAMS.items()})
        link.answers.update({name: filled(kind, EVIL, number, which) for name, kind in ANSWERS.items()})

    return Stage(scene)


@pytest.mark.parametrize(("which", "number"), [(1, 1.8e19), (4, -1.8e19)])
async def test_every_key(which: int, number: float) -> None:
    async with on_stage(stage(which, number)) as pilot:
        for action in ACTIONS:
            if action.where != MAIN or action.id == "quit":
                continue
            for keys in ((action.key,), ("enter",), ("right", "enter")):
                await pilot.press(*keys)
                await pilot.pause(0.02)
                assert not set(words(pilot) + toasts(pilot)) & CONTROLS, action.key
            await pilot.press("escape", "escape", "escape")
        assert app_of(pilot).is_running
