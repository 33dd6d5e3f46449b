"""What no stream tells is looked at now and then: the patch, and who holds GPUs while no server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import OperatorError
from console.operations import calls, gpuholders
from console.operations.gpuholders import GpuHolders
from console.tui.threads import in_thread
from remote.wire.telemetry import GpuSnapshot

if TYPE_CHECKING:
    from console.tui.app import HsConsoleApp

PATCH_EVERY = 60.0  # seconds
PATCH_AGAIN = 5.0  # seconds after a look that failed
HOLDERS_EVERY = 60.0  # seconds
NEVER = float("-inf")


class Looks:
    """The UI thread's alone; what a look finds is in the picture later."""

    def __init__(self, app: HsConsoleApp) -> None:
        self._app = app
        self._patch_at = NEVER
        self._holders_at = NEVER

    def expect_change(self) -> None:
        """The link or the server is not what it was: the patch is looked at when that can be done again."""
        self._patch_at = NEVER

    def when_due(self, *, acting: bool) -> None:
        """acting: an action is under way, which looks at the patch when it ends."""
        picture = self._app.picture
        now = picture.clock.monotonic()
        if not picture.unexplained or picture.gpus is None:
            self._holders_at = NEVER
            picture.gpu_holders = None
        elif now - self._holders_at >= HOLDERS_EVERY:
            self._holders_at = now
            self._app.run_worker(self._holders(picture.gpus), group="holders", exclusive=True)
        if picture.live and not acting and now - self._patch_at >= PATCH_EVERY:
            self._patch_at = now
            self.at_patch()

    def at_patch(self) -> None:
        self._app.run_worker(self._patch(), group="patch", exclusive=True)

    async def _patch(self) -> None:
        picture = self._app.picture
        try:
            picture.patch = await in_thread(calls.patch_status, self._app.agent)
            picture.patch_problem = ""
        except OperatorError as error:
            picture.patch_problem = f"{error.title}: {error.what}"
            self._patch_at += PATCH_AGAIN - PATCH_EVERY
        self._app.look()

    async def _holders(self, seen: GpuSnapshot) -> None:
        try:
            found = await in_thread(gpuholders.ask, self._app.profile, seen)
        except OperatorError as error:  # a fault: no look that nobody asked for may end the screen
            found = GpuHolders(problem=error.what)
        self._app.picture.see_holders(found)
        self._app.look()
