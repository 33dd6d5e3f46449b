"""U01: what the container says is shown, whatever it is, and never obeyed."""

from __future__ import annotations

import dataclasses
import threading

import pytest
from textual.pilot import Pilot

from console.errors import ServerError
from remote.wire.codec import encode
from remote.wire.dumps import DumpDetail, DumpFile, DumpTest
from remote.wire.plan import Check, Outcome, Plan, Step, StepResult
from remote.wire.server import Preflight
from tests.ui import scenes
from tests.ui.fake_link import FakeLink
from tests.ui.scenes import BAD, HOSTILE, Stage
from tests.ui.stagehand import link_of, on_stage, toasts, until, words

SHOWN = "read [/dev/shm] failed [/foo]"
CHECKS = (Check(HOSTILE, BAD, HOSTILE, HOSTILE),)


def all_hostile(link: FakeLink) -> None:
    scenes.hostile(link)
    plan = Plan(
        HOSTILE, HOSTILE, True, (Step(HOSTILE, HOSTILE),), (HOSTILE,), (HOSTILE,), {}, f"+{HOSTILE}\n-{HOSTILE}"
    )
    link.answers.update(
        {
            "server.preflight": Preflight(CHECKS),
            "plan server.start": plan,
            "plan server.stop": plan,
            "plan patch.apply": plan,
            f"run {HOSTILE}": Outcome(HOSTILE, False, HOSTILE, CHECKS),
            "dumps.test": DumpTest(False, HOSTILE, 1.0, None, CHECKS),
            "dumps.show": DumpDetail(
                dataclasses.replace(scenes.rows(1)[0], note=HOSTILE, rid=HOSTILE),
                HOSTILE,
                {HOSTILE: HOSTILE, "num_tokens": [HOSTILE], "rid": {HOSTILE: HOSTILE}},
                (DumpFile(HOSTILE, 1, 2, 3, HOSTILE, (1,), HOSTILE),),
                CHECKS,
            ),
        }
    )
    link.steps.update(
        {f"run {HOSTILE}": [StepResult(HOSTILE, False, HOSTILE)], "dumps.test": [StepResult(HOSTILE, True, HOSTILE)]}
    )


def harmless(pilot: Pilot[None]) -> bool:
    shown = words(pilot)
    assert not [character for character in shown.replace("\n", "") if character < " " or "\x7f" <= character < "\xa0"]
    shown.encode("utf-8")
    return SHOWN in shown


@pytest.mark.parametrize(
    "keys",
    [
        (),
        ("p",),
        ("p", "d"),
        ("f",),
        ("s",),
        ("s", "enter"),
        ("x",),
        ("x", "right", "enter"),
        ("t",),
        ("enter",),
        ("l",),
        ("l", "slash", "f", "o", "o", "enter"),
        ("slash", "f", "o", "o"),
        ("ctrl+p",),
    ],
    ids=" ".join,
)
async def test_everywhere(keys: tuple[str, ...]) -> None:
    async with on_stage(Stage(all_hostile)) as pilot:
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.05)
        await until(pilot, lambda: harmless(pilot))


async def test_in_errors_and_notices() -> None:
    stage = Stage(all_hostile)
    async with on_stage(stage) as pilot:
        link_of(stage).answers["plan server.stop"] = ServerError(HOSTILE, HOSTILE)
        await pilot.press("x")
        await until(pilot, lambda: words(pilot).count(SHOWN) >= 2)
        assert harmless(pilot)


async def test_in_the_notice_of_an_end_that_nobody_looked_at() -> None:
    stage, gate = Stage(all_hostile), threading.Event()

    def when_told(_: object) -> Outcome:
        assert gate.wait(30)
        return Outcome(HOSTILE, False, HOSTILE, CHECKS)

    async with on_stage(stage) as pilot:
        link_of(stage).answers[f"run {HOSTILE}"] = when_told
        await pilot.press("x", "right", "enter")
        await until(pilot, lambda: f"run {HOSTILE}" in link_of(stage).asked)
        await pilot.press("escape")
        gate.set()
        await until(pilot, lambda: SHOWN in toasts(pilot))
        assert harmless(pilot)
        assert not set(toasts(pilot)) & set("\x1b\x07\x00\u202e\udcff")


def test_the_scenes_survive_the_wire() -> None:
    assert encode(HOSTILE) == HOSTILE
