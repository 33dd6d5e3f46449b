"""The canary that follows a start from this screen: begun once the server is ready, in the way of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.cancel import Cancel
from console.operations import calls, readiness
from console.tui.act import canary_run, carry, tell_end
from console.tui.run import Run
from remote.wire.dumps import Canary
from remote.wire.plan import OnStep
from remote.wire.server import Phase, ServerState

if TYPE_CHECKING:
    from console.tui.app import HsConsoleApp


class AfterStart:
    """The UI thread's alone. What it runs is `picture.proving`."""

    def __init__(self, app: HsConsoleApp) -> None:
        self._app = app
        self._awaited = False
        self._before: int | None = None
        self._pid: int | None = None

    def expect(self, before: int | None) -> None:
        """A start went well; before: the pid of the server that was there until then."""
        self._awaited, self._before, self._pid = True, before, None
        self.see()

    def drop(self) -> None:
        """The server is about to be ended, or to be another one: what a canary then finds is no fault of its dumps."""
        self._awaited = False
        self.end()

    def end(self) -> None:
        run = self._app.picture.proving
        if run is not None:
            run.stop()
            run.wait.give_up()

    def see(self) -> None:
        """Look at the picture's server: is it the one that was started, and is it ready."""
        server = self._app.picture.server
        if not self._awaited or server is None:
            return
        if self._pid is None and server.pid not in (None, self._before):
            self._pid = server.pid
        if self._pid is None:
            return  # what is known is still older than the start
        if server.pid != self._pid:
            self._awaited = False  # it ended before it was ready
        elif server.phase is Phase.READY:
            self._awaited = False
            if not readiness.why_no_canary(self._app.profile, server) and not self._app.runs("canary"):
                self._begin(server)

    def _begin(self, server: ServerState) -> None:
        cancel = Cancel()
        run = self._app.picture.proving = canary_run(self._app, cancel)
        self._app.run_worker(self._prove(run, server, cancel), group="proof")

    async def _prove(self, run: Run, server: ServerState, cancel: Cancel) -> None:
        app = self._app

        def work(on_step: OnStep) -> Canary:
            return calls.canary(app.agent, app.profile, on_step, cancel, run.wait)

        try:
            await carry(app, run, work)
        finally:
            app.picture.proving = None
        if isinstance(run.result, Canary):
            app.picture.see_canary(server.pid, run.result)
        tell_end(app, run)
        app.look()
