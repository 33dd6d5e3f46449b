"""Takes the screenshots from the real stack: the demo's server, over SSH, driven by keyboard.

Run by `make screenshots`; writes SVG files beside this one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from console.demo.progress import Progress
from console.demo.stage import Stage
from console.demo.stage import stage as set_stage
from console.link import Link
from console.tui.app import HsConsoleApp
from remote.wire.server import Phase
from tests.engine.keyboard import Keyboard, at_the_screen
from tests.engine.test_keyboard import apply_the_patch, revert_the_patch, send_a_test_request, stop_the_server

HERE = Path(__file__).parent
REQUESTS = 6


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def save(keyboard: Keyboard, name: str) -> None:
    picture = keyboard.app.export_screenshot(title="hsconsole")
    # renderers other than browsers drop the spaces that begin a text, and with them the alignment
    (HERE / f"{name}.svg").write_text(picture.replace("<text ", '<text xml:space="preserve" '))
    say(name)


async def walk(stage: Stage) -> None:
    async with at_the_screen(HsConsoleApp(stage.profile, Link)) as keyboard:
        picture = keyboard.picture
        await keyboard.until("patch state", lambda: picture.patch)
        await apply_the_patch(keyboard)
        await keyboard.plan("s")
        save(keyboard, "confirm-start")
        await keyboard.go_ahead()
        await keyboard.press("escape")
        await keyboard.until("progress", lambda: picture.server and picture.server.load, 120)
        save(keyboard, "main-loading")
        await keyboard.until("ready", lambda: picture.server and picture.server.phase is Phase.READY, 200)
        await keyboard.press("C")
        await keyboard.ended()
        save(keyboard, "canary")
        await keyboard.press("escape")
        for _ in range(REQUESTS):
            await send_a_test_request(keyboard)
        await keyboard.until("their rows", lambda: len(picture.dumps) >= REQUESTS)
        await asyncio.sleep(1.0)
        save(keyboard, "main-ready")
        await keyboard.press("enter")
        await asyncio.sleep(1.0)
        save(keyboard, "request")
        await keyboard.press("escape", "p")
        await asyncio.sleep(2.0)
        save(keyboard, "patch")
        await keyboard.press("escape", "t")
        await keyboard.ended()
        save(keyboard, "test-request")
        await keyboard.press("escape")
        await stop_the_server(keyboard)
        await revert_the_patch(keyboard)


def main() -> None:
    def tell(progress: Progress) -> None:
        say(f"{progress.seconds:7.1f} s  {progress.stage}  {progress.detail}")

    with set_stage(tell) as made:
        asyncio.run(walk(made))


if __name__ == "__main__":
    main()
