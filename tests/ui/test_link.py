"""The link in all its states: the screen opens before it, outlives it, asks about it, and never ends by itself."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from console.errors import ConfigError
from console.link import LinkPhase
from console.tui.app import HsConsoleApp
from console.tui.screens.error import ErrorScreen
from console.tui.screens.host_key import HostKeyScreen
from console.tui.screens.main import MainScreen
from tests.ui import scenes
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import Stage
from tests.ui.stagehand import app_of, link_of, on_stage, settled, showing, toasts, until, words


async def test_it_opens_while_the_link_is_still_being_made() -> None:
    made = threading.Event()

    def slow(*args: Any) -> FakeLink:
        made.wait(10)
        return FakeLink(*args)

    app = HsConsoleApp(scenes.PROFILE, slow)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert "connecting to root@ct129" in words(pilot)
        assert "waiting for the first look" in words(pilot)
        await pilot.press("s")
        assert "the link is not up yet" in toasts(pilot)
        made.set()


def test_the_screen_imports_neither_paramiko_nor_slowly() -> None:
    code = "import sys, console.tui.app; print('paramiko' in sys.modules, 'msgspec' in sys.modules)"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 5.0, "it takes one second of the CPU"


async def test_a_timer_that_never_fires_does_not_freeze_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        monkeypatch.setattr(pilot.app, "set_timer", lambda *_, **__: None)
        link_of(stage).say(gpus=scenes.NO_GPU)
        await until(pilot, lambda: "There is no NVIDIA library here" in words(pilot))


async def test_a_factory_that_fails_is_shown_and_can_be_tried_again() -> None:
    tried: list[int] = []

    def broken(*args: Any) -> FakeLink:
        tried.append(1)
        raise ConfigError("~/.ssh/config, line 3: unknown key", "Mend the line.")

    app = HsConsoleApp(scenes.PROFILE, broken)
    async with app.run_test(size=(120, 36)) as pilot:
        await showing(pilot, ErrorScreen)
        await pilot.pause()
        assert "line 3: unknown key" in words(pilot)
        await pilot.press("escape", "r")
        await until(pilot, lambda: len(tried) == 2)


async def test_a_link_that_is_being_made_is_not_made_twice() -> None:
    tried: list[FakeLink] = []
    made = threading.Event()

    def late(*args: Any) -> FakeLink:
        tried.append(FakeLink(*args))
        if len(tried) == 1:
            raise ConfigError("~/.ssh/config, line 3: unknown key", "Mend the line.")
        made.wait(60)
        return tried[-1]

    app = HsConsoleApp(scenes.PROFILE, late)
    async with app.run_test(size=(120, 36)) as pilot:
        await showing(pilot, ErrorScreen)
        await pilot.press("escape", "r", "r")
        assert "the link is not waiting to try again" in toasts(pilot)
        assert "line 3" not in words(pilot)
        made.set()
        await until(pilot, lambda: app.link is not None)
    assert [link.closed.is_set() for link in tried] == [False, True]


async def test_lost_the_picture_stays_with_its_age_and_comes_back() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link = link_of(stage)
        stage.clock.now += 23
        link.be(LinkPhase.LOST, "cut", retry_at=stage.clock.now + 3)
        await settled(pilot)
        shown = words(pilot)
        assert "lost, trying again in 3 s" in shown
        assert shown.count("as of 23 s ago") == 5
        assert "s-001286" in shown
        stage.clock.now += 2
        app_of(pilot)._take()
        await pilot.pause()
        assert "trying again in 1 s" in words(pilot)
        assert "as of 25 s ago" in words(pilot)
        await pilot.press("r")
        assert link.retried == 1
        link.be(LinkPhase.LIVE)
        await settled(pilot)
        assert "live, 12 ms" in words(pilot)
        assert words(pilot).count("as of 25 s ago") == 3, "old until the new link's streams have spoken"
        link.say(server=scenes.READY, gpus=scenes.gpus(8), shm=scenes.SHM)
        await settled(pilot)
        assert "as of" not in words(pilot)


@pytest.mark.parametrize("phase", [LinkPhase.STALE, LinkPhase.LOST, LinkPhase.REFUSED, LinkPhase.CONNECTING])
async def test_without_a_link_keys_say_why_they_do_nothing(phase: LinkPhase) -> None:
    stage = Stage(scenes.answering)
    async with on_stage(stage) as pilot:
        asked = list(link_of(stage).asked)
        link_of(stage).be(phase, "cut")
        await settled(pilot)
        for told, key in enumerate(("s", "x", "p", "f", "t", "enter"), 1):
            await pilot.press(key)
            assert len(pilot.app._notifications) == told
            assert isinstance(pilot.app.screen, MainScreen)
        assert link_of(stage).asked == asked


async def test_what_a_live_link_lacks_is_said() -> None:
    stage = Stage(scenes.ready)
    async with on_stage(stage) as pilot:
        link_of(stage).be(LinkPhase.LIVE, "watch.gpus ended: no NVML [/foo]")
        await settled(pilot)
        assert "watch.gpus ended: no NVML [/foo]" in words(pilot)


async def test_refused_is_explained_once_per_refusal() -> None:
    stage = Stage(scenes.refused)
    async with on_stage(stage) as pilot:
        await showing(pilot, ErrorScreen)
        await pilot.pause()
        assert "THE HOST KEY HAS CHANGED" in words(pilot)
        assert "ssh-keygen -R ct129" in words(pilot)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)
        assert "✗ THE HOST KEY HAS CHANGED" in words(pilot)
        await pilot.press("r")
        assert link_of(stage).retried == 1


@pytest.mark.parametrize(("keys", "trusted"), [(("enter",), False), (("escape",), False), (("tab", "enter"), True)])
async def test_an_unknown_host_is_asked_about(keys: tuple[str, ...], trusted: bool) -> None:
    stage = Stage(scenes.stranger)
    async with on_stage(stage) as pilot:
        await showing(pilot, HostKeyScreen)
        await pilot.pause()
        assert scenes.FINGERPRINT in words(pilot)
        await pilot.press(*keys)
        await until(pilot, link_of(stage).connected.is_set)
        await settled(pilot)
        assert app_of(pilot).picture.link.phase is (LinkPhase.LIVE if trusted else LinkPhase.REFUSED)


async def test_leaving_answers_the_waiting_link_with_no() -> None:
    stage = Stage(scenes.stranger)
    async with on_stage(stage) as pilot:
        await showing(pilot, HostKeyScreen)
        link = link_of(stage)
    assert link.connected.wait(60)
    assert link.closed.is_set()


async def test_leaving_waits_for_no_answer() -> None:
    stage = Stage(scenes.answering)
    never = threading.Event()
    async with on_stage(stage) as pilot:
        link_of(stage).answers["dumps.show"] = lambda args: never.wait(60)
        await pilot.press("enter")
        await until(pilot, lambda: "reading" in words(pilot))
        began = time.monotonic()
        await pilot.press("q")
    assert time.monotonic() - began < 30
    never.set()


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (LinkPhase.LIVE, "● live, 12 ms"),
        (LinkPhase.CONNECTING, "◌ logging in"),
        (LinkPhase.STALE, "◌ no answer for"),
        (LinkPhase.LOST, "○ lost, trying again"),
        (LinkPhase.REFUSED, "✗ refused"),
    ],
)
async def test_the_state_of_the_link_is_read_at_every_width(phase: LinkPhase, said: str, width: int) -> None:
    """What a demo stands in for gives way to it."""
    stage = Stage(scenes.ready, scenes.DEMO)
    async with on_stage(stage, size=(width, 24)) as pilot:
        link_of(stage).be(phase, {LinkPhase.CONNECTING: "logging in", LinkPhase.REFUSED: "refused"}.get(phase, ""))
        await settled(pilot)
        first = words(pilot).splitlines()[0]
        assert said in first
        assert "demo" in first.removeprefix(" demo")
