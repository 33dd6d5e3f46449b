"""Actions by keyboard: plan, confirm or cancel, run, second look, errors; one at a time."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button
from textual.worker import WorkerFailed

from console import audit
from console.errors import ChangedSincePlan, LinkLost, NotAsked, OperatorError, ServerError
from console.link import LinkPhase
from console.operations import fate
from console.tui.act import Actor
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.diff import DiffScreen
from console.tui.screens.error import ErrorScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.patch import PatchScreen
from console.tui.screens.preflight import PreflightScreen
from console.tui.screens.request import RequestScreen
from console.tui.screens.run import RunScreen
from remote.wire.audit import Became, Fate
from remote.wire.codec import encode
from remote.wire.plan import StepResult
from remote.wire.server import Phase
from tests.ui import scenes
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, showing, toasts, until, words


def ran(stage: Stage) -> list[str]:
    return [call for call in link_of(stage).asked if call.startswith(("run", "dumps.test"))]


async def confirm(pilot: Pilot[None]) -> None:
    await showing(pilot, ConfirmScreen)
    await pilot.press("right", "enter")


async def test_the_confirmation_shows_exactly_the_plan_and_cancel_is_first() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("x")
        await showing(pilot, ConfirmScreen)
        await pilot.pause()
        shown = words(pilot)
        for step in scenes.STOP.steps:
            assert step.title in shown
            assert f"$ {step.command}" in shown
        for loss in scenes.STOP.losses:
            assert f"! {loss}" in shown
        assert "on root@ct129" in shown
        assert isinstance(pilot.app.focused, Button)
        assert pilot.app.focused.id == "cancel"


@pytest.mark.parametrize("key", ["enter", "escape"])
async def test_cancelled_nothing_runs(key: str) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("x")
        await showing(pilot, ConfirmScreen)
        await pilot.press(key)
        await showing(pilot, MainScreen)
        await until(pilot, lambda: not app_of(pilot)._actor.running)
        assert ran(stage) == []


async def test_a_stop_from_key_to_second_look() -> None:
    stage = Stage(scenes.answering)
    basis: list[Any] = []
    async with on_stage(stage) as pilot:

        def stop(args: dict[str, Any]) -> Any:
            basis.append(args["basis"])
            return scenes.STOPPED_WELL

        link_of(stage).answers["run server.stop"] = stop
        await pilot.press("x")
        await confirm(pilot)
        await showing(pilot, RunScreen)
        await until(pilot, lambda: "The server is gone." in words(pilot))
        shown = words(pilot)
        assert "✓  ask pid 48213 to end" in shown
        assert "3.2 s  it ended" in shown
        assert "back at its baseline of 0.6 GiB" in shown
        assert basis == [{"pid": 48213, "start_ticks": 9}]
        await pilot.press("c")
        assert "The server is gone." in pilot.app.clipboard
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_a_step_tells_whole_paths_on_a_narrow_screen() -> None:
    path = "/root/.local/state/hsconsole/originals/f61f93019bf1e7680f45"
    stage = Stage(scenes.answering)
    async with on_stage(stage, size=(80, 24)) as pilot:
        link_of(stage).steps["run server.stop"] = [StepResult("A title of ordinary length, as steps have", True, path)]
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: path in words(pilot))


async def test_a_second_look_that_disagrees_is_no_success() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["run server.stop"] = scenes.STOPPED_BADLY
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: "✗ The server is not gone." in words(pilot))
        assert "→ Look at who that is" in words(pilot)


@pytest.mark.parametrize(
    "error",
    [
        ChangedSincePlan("pid 48213 is another process now", "Look again, then stop."),
        NotAsked("the line was cut", "It goes on trying."),
        ServerError("read [/dev/shm] failed [/foo]", ""),
    ],
    ids=lambda error: error.id,
)
async def test_an_error_while_it_runs_is_shown_beside_the_steps(error: OperatorError) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["run server.stop"] = error
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: f"✗ {error.title}" in words(pilot))
        assert "✓  ask pid 48213 to end" in words(pilot)
        assert error.what in words(pilot)
        assert error.remedy in words(pilot)


async def test_a_link_lost_midway_is_waited_for_and_the_end_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fate, "EVERY", 0.01)
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["run server.stop"] = LinkLost("silent for 10 s")
        link_of(stage).answers["audit.fate"] = NotAsked("lost: refused")
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: fate.LOST in words(pilot))
        assert app_of(pilot)._actor.run is not None
        answer = scenes.STOPPED_WELL
        link_of(stage).answers["audit.fate"] = Fate(Became.ENDED, "10:00", scenes.STOP_STEPS, encode(answer))
        await until(pilot, lambda: answer.summary in words(pilot))
        assert ran(stage) == ["run server.stop"]


async def test_another_action_takes_the_place_of_one_that_waits_for_the_link(held: None) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["run server.stop"] = LinkLost("silent for 10 s")
        link_of(stage).answers["audit.fate"] = NotAsked("lost: refused")
        await pilot.press("x")
        await confirm(pilot)
        first = await showing(pilot, RunScreen)
        await until(pilot, lambda: fate.LOST in words(pilot))
        link_of(stage).be(LinkPhase.LOST, "silent for 10 s", retry_at=2000.0)
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        await pilot.press("z")
        await showing(pilot, ConfirmScreen)
        await until(pilot, lambda: first.run.error is not None)
        assert "could not be learned" in first.run.summary
        await pilot.press("right", "enter")
        second = await showing(pilot, RunScreen)
        await until(pilot, lambda: second.run.ended is not None)
        assert second.run.action == "server.recover"


async def test_an_error_of_the_plan_can_be_copied() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["plan server.stop"] = ServerError("no answer [/foo]", "Try again.")
        await pilot.press("x")
        await showing(pilot, ErrorScreen)
        await pilot.press("c")
        assert "no answer [/foo]" in pilot.app.clipboard
        assert "[server]" in pilot.app.clipboard
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_a_fault_of_hsconsole_itself_is_an_error_screen_too() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["plan server.stop"] = lambda args: 1 / 0
        await pilot.press("x")
        await showing(pilot, ErrorScreen)
        await pilot.pause()
        assert "ZeroDivisionError" in words(pilot)


async def test_a_fault_between_two_questions_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Actor, "_clear_to_start", fail)

    async def press() -> None:
        async with on_stage(Stage(scenes.answering)) as pilot:
            await pilot.press("x")
            await until(pilot, lambda: app_of(pilot).fault)

    with pytest.raises(WorkerFailed, match="ZeroDivisionError"):
        await press()


async def test_what_is_not_needed_is_said_and_nothing_can_be_confirmed() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["plan server.stop"] = scenes.NOT_NEEDED
        await pilot.press("x")
        screen = await showing(pilot, ConfirmScreen)
        await pilot.pause()
        assert "Nothing to do" in words(pilot)
        assert not screen.query("#go")
        await pilot.press("enter")
        await showing(pilot, MainScreen)
        assert ran(stage) == []


async def test_a_blocked_start_shows_the_preflight_before_the_plan() -> None:
    stage = Stage(scenes.blocked)
    async with on_stage(stage) as pilot:
        await pilot.press("s")
        await showing(pilot, PreflightScreen)
        await pilot.pause()
        assert "2 things stand in the way" in words(pilot)
        assert "plan server.start" not in link_of(stage).asked
        await pilot.press("enter")
        await showing(pilot, ConfirmScreen)
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        await until(pilot, lambda: not app_of(pilot)._actor.running)
        await pilot.press("s")
        await showing(pilot, PreflightScreen)
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        assert link_of(stage).asked.count("plan server.start") == 1


async def test_a_clear_start_goes_straight_to_the_plan() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("s")
        await confirm(pilot)
        await until(pilot, lambda: "It loads: pid 48213." in words(pilot))


@pytest.mark.parametrize("leave", ["q", "ctrl+q"])
async def test_one_action_at_a_time_and_the_page_can_be_left(leave: str) -> None:
    stage = Stage(scenes.answering)
    go = threading.Event()

    def stop(args: dict[str, Any]) -> Any:
        go.wait(10)
        return scenes.STOPPED_WELL

    async with on_stage(stage) as pilot:
        link_of(stage).answers["run server.stop"] = stop
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: "running for" in words(pilot))
        await pilot.press("escape")
        await showing(pilot, MainScreen)
        await pilot.press("s")
        await showing(pilot, RunScreen)
        assert "'stop' is running" in toasts(pilot)
        assert "plan server.start" not in link_of(stage).asked
        await pilot.press("ctrl+c")
        assert "q leaves" in toasts(pilot)
        await pilot.press("escape", leave)
        assert "Press q again" in toasts(pilot)
        go.set()
        await until(pilot, lambda: "The server is gone." in toasts(pilot))


async def test_request_from_key_to_dump() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("t")
        await showing(pilot, RunScreen)
        await until(pilot, lambda: "req_1287: every check is well" in words(pilot))
        assert "✓  tokens       10 of 10" in words(pilot)
        await pilot.press("enter")
        screen = await showing(pilot, RequestScreen)
        assert isinstance(screen, RequestScreen)
        assert screen.number == 1287


async def test_patch_page_apply_revert_diff() -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        await pilot.press("p")
        await showing(pilot, PatchScreen)
        await pilot.pause()
        for part in ("applied, version 3", "✓  loaded", "2702  if _hs_request", "deepseek 0.4.0-0.5.9", "9f2c4e0b6a1d"):
            assert part in words(pilot)
        apply = link_of(stage).answers["plan patch.apply"]
        link_of(stage).answers["plan patch.apply"] = dataclasses.replace(apply, needed=False, diff="")
        await pilot.press("d")
        await showing(pilot, DiffScreen)
        await pilot.pause()
        assert "+_hs_dump = _hs_load()" in words(pilot)
        assert [call for call in link_of(stage).asked if "plan" in call] == ["plan patch.apply", "plan patch.revert"]
        link_of(stage).answers["plan patch.apply"] = apply
        await pilot.press("escape", "a")
        await showing(pilot, ConfirmScreen)
        await pilot.pause()
        assert "-x = 1" in words(pilot)
        await pilot.press("right", "enter")
        await until(pilot, lambda: "✓ Applied." in words(pilot))
        await pilot.press("escape")
        await showing(pilot, PatchScreen)
        await pilot.press("v")
        await showing(pilot, ConfirmScreen)


async def test_preflight_page() -> None:
    async with on_stage(Stage(scenes.answering)) as pilot:
        await pilot.press("f")
        await showing(pilot, PreflightScreen)
        await until(pilot, lambda: "Nothing stands in the way; 2 doubts" in words(pilot))
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


@pytest.mark.parametrize(("key", "end"), [("t", "✓ req_1287"), ("C", "✓ well")])
async def test_a_record_that_could_not_be_written_is_told_at_the_end_too(
    key: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "file"))
    async with on_stage(Stage(scenes.answering)) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: end in words(pilot))
        shown = words(pilot)
        assert shown.count(audit.TITLE) == 2, "its beginning and its end"
        assert shown.count("  tokens  ") <= 1, "what the checks tell is told once"
        await pilot.press("c")
        assert pilot.app.clipboard.count("could NOT be recorded") == 2


@pytest.mark.parametrize("phase", [Phase.UNHEALTHY, Phase.ORPHANS])
async def test_a_server_that_is_stopped_from_here_is_stopping_and_not_unwell(phase: Phase) -> None:
    stage, over = Stage(scenes.answering), threading.Event()
    async with on_stage(stage) as pilot:
        link, unwell = link_of(stage), dataclasses.replace(scenes.READY, phase=phase)
        link.answers["run server.stop"] = lambda _: scenes.STOPPED_WELL if over.wait(60) else None
        link.say(server=unwell)
        await until(pilot, lambda: f"✗ {phase.value}" in words(pilot))
        await pilot.press("x")
        await confirm(pilot)
        await until(pilot, lambda: "◐ stopping" in words(pilot).splitlines()[1])
        over.set()
        await until(pilot, lambda: f"✗ {phase.value}" in words(pilot).splitlines()[1], "it did not go")
