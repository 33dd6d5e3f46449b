"""The whole main job by keyboard, on the real screen over the real stack."""

from __future__ import annotations

from console.demo.stage import Stage
from console.link import Link, LinkPhase
from console.tui.app import HsConsoleApp
from console.tui.screens.request import RequestScreen
from remote.wire.dumps import DumpState
from remote.wire.patch import PatchState
from remote.wire.plan import Verdict
from remote.wire.server import Phase
from tests.engine.keyboard import Keyboard, at_the_screen


async def test_the_whole_main_job(stage: Stage) -> None:
    async with at_the_screen(HsConsoleApp(stage.profile, Link)) as keyboard:
        picture = keyboard.picture
        await keyboard.until("link", lambda: picture.link.phase is LinkPhase.LIVE)
        await keyboard.until("patch state", lambda: picture.patch)
        assert picture.patch is not None
        assert picture.patch.state is PatchState.CLEAN

        await apply_the_patch(keyboard)
        await start_the_server(keyboard)
        await send_a_test_request(keyboard)
        await open_the_request(keyboard)
        await stop_the_server(keyboard)
        await revert_the_patch(keyboard)
        await keyboard.press("q")
    assert keyboard.app.return_code == 0


async def apply_the_patch(keyboard: Keyboard) -> None:
    await keyboard.press("p")
    plan = await keyboard.plan("a")
    assert "+" in plan.diff
    run = await keyboard.go_ahead()
    assert run.ok, run.error or run.checks
    await keyboard.press("escape", "escape")
    picture = keyboard.picture
    await keyboard.until("applied", lambda: picture.patch and picture.patch.state is PatchState.APPLIED)


async def start_the_server(keyboard: Keyboard) -> None:
    picture = keyboard.picture
    plan = await keyboard.plan("s")
    assert any("sglang.launch_server" in step.command for step in plan.steps)
    run = await keyboard.go_ahead()
    assert run.ok, run.error or run.checks
    await keyboard.press("escape")
    await keyboard.until("loading", lambda: picture.server and picture.server.phase is Phase.LOADING)
    await keyboard.until("ready", lambda: picture.server and picture.server.phase is Phase.READY)
    loaded = await keyboard.until(
        "loaded patch", lambda: picture.patch and next(d for d in picture.patch.depths if d.name == "loaded")
    )
    assert loaded is not None
    judged = await keyboard.until("its canary", lambda: picture.server.canary if picture.server else None)
    assert judged.verdict is Verdict.OK


async def send_a_test_request(keyboard: Keyboard) -> None:
    await keyboard.press("t")
    run = await keyboard.ended()
    assert run.ok, run.error or [check for check in run.checks if check.verdict is not Verdict.OK]
    await keyboard.press("escape")


async def open_the_request(keyboard: Keyboard) -> None:
    picture = keyboard.picture
    row = await keyboard.until("dump", lambda: picture.dumps.at(0) if len(picture.dumps) else None)
    assert row.state is DumpState.COMPLETE
    await keyboard.press("enter")
    screen = await keyboard.until("request", lambda: _request(keyboard))
    detail = await keyboard.until("detail", lambda: screen.detail)
    assert {check.verdict for check in detail.checks} == {Verdict.OK}
    await keyboard.press("escape")


def _request(keyboard: Keyboard) -> RequestScreen | None:
    return keyboard.app.screen if isinstance(keyboard.app.screen, RequestScreen) else None


async def stop_the_server(keyboard: Keyboard) -> None:
    picture = keyboard.picture
    plan = await keyboard.plan("x")
    assert plan.losses
    run = await keyboard.go_ahead()
    assert run.ok, run.error or run.checks
    await keyboard.press("escape")
    await keyboard.until("stopped", lambda: picture.server and picture.server.phase is Phase.STOPPED)


async def revert_the_patch(keyboard: Keyboard) -> None:
    await keyboard.press("p")
    await keyboard.plan("v")
    run = await keyboard.go_ahead()
    assert run.ok, run.error or run.checks
    await keyboard.press("escape", "escape")
    picture = keyboard.picture
    await keyboard.until("clean", lambda: picture.patch and picture.patch.state is PatchState.CLEAN)
