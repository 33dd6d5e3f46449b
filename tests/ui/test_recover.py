"""`z`: who is in the way, confirmed, ended, looked at again; and what may not be ended is said."""

from __future__ import annotations

from typing import Any

from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.error import ErrorScreen
from console.tui.screens.run import RunScreen
from remote.wire.plan import Check, Outcome, StepResult, Verdict
from remote.wire.recovery import PortFacts
from remote.wire.server import Phase, ProcessInfo
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import link_of, on_stage, showing, until, words

ORPHAN = ProcessInfo(53, 900, "sglang::scheduler_TP0", "root", "S", age=75.0, ours=True, why="by record", holds=("x",))
KERNEL = ProcessInfo(77, 901, "python3 -m ipykernel_launcher", "ann", "S", holds=("0.0.0.0:8000",))


def facts(*processes: ProcessInfo) -> PortFacts:
    return PortFacts(1.0, 8000, Phase.ORPHANS, "", processes, bind_problem="Address already in use", user="root")


async def test_from_key_to_second_look() -> None:
    stage = Stage(scenes.answering)
    asked: list[Any] = []

    def end(args: dict[str, Any]) -> Outcome:
        asked.append(args["basis"]["processes"])
        return Outcome("server.recover", True, "free", (Check("port", Verdict.OK, "it can be bound"),))

    async with on_stage(stage) as pilot:
        link_of(stage).answers |= {"recover.facts": facts(ORPHAN), "recover.end": end}
        link_of(stage).steps["recover.end"] = [StepResult("Ask them to end", True, "kill -TERM 53")]
        await pilot.press("z")
        await showing(pilot, ConfirmScreen)
        await pilot.pause()
        assert "pid 53 of root" in words(pilot)
        assert "$ kill -KILL 53" in words(pilot)
        await pilot.press("right", "enter")
        screen = await showing(pilot, RunScreen)
        await until(pilot, lambda: screen.run.ended is not None)
        assert screen.run.ok
        assert screen.run.summary == "Recovered: port 8000 is free."
        assert asked == [[[53, 900]]]


async def test_a_stranger_is_named_and_left_alone() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["recover.facts"] = facts(KERNEL)
        await pilot.press("z")
        screen = await showing(pilot, ErrorScreen)
        assert "pid 77 of ann" in screen.error.what
        assert "--including 77" in screen.error.remedy
        assert not [call for call in link_of(stage).asked if call.startswith("recover.end")]
