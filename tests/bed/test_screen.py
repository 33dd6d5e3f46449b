"""`z` on the real screen, against the bed: from the key to the free port, with the link and without it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from console.config.profile import Profile
from console.link import Link, LinkPhase
from console.tui.app import HsConsoleApp
from remote.wire.server import Phase
from tests.bed.container import Ground
from tests.engine.keyboard import Keyboard, at_the_screen


@pytest.mark.parametrize("sshd", ["alive", "dead"])
async def test_b_from_the_key_to_the_free_port(profile: Profile, ground: Ground, sshd: str) -> None:
    ground.hold("orphans")
    if sshd == "dead":
        ground.sh("systemctl stop ssh")
    async with at_the_screen(HsConsoleApp(profile, Link)) as keyboard:
        await see_what_there_is_to_see(keyboard, sshd)
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            freed = pool.submit(ground.wait_until_free)
            plan = await keyboard.plan("z")
            run = await keyboard.go_ahead()
        assert any("sglang::scheduler_TP0" in step.title for step in plan.steps)
        assert run.ok, run.error or run.checks
        assert run.summary == "Recovered: port 8000 is free."
        await keyboard.press("escape")
        picture = keyboard.picture
        await keyboard.until("stopped", lambda: picture.server and picture.server.phase is Phase.STOPPED)
    took = freed.result() - began
    print(f"{took:.1f} s from the key to the free port")
    assert took < 3 * 10.0, "three times as long as it may take, for a busy machine"


async def see_what_there_is_to_see(keyboard: Keyboard, sshd: str) -> None:
    picture = keyboard.picture
    if sshd == "dead":
        await keyboard.until("lost link", lambda: picture.link.phase is LinkPhase.LOST)
    else:
        await keyboard.until("orphans", lambda: picture.server and picture.server.phase is Phase.ORPHANS)
