"""An action from key to done: preflight, plan, confirmation, run, second look. One at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from console.actions import Action
from console.cancel import Cancel
from console.errors import OperatorError
from console.operations import calls, restart
from console.operations.fate import Wait
from console.operations.recovery_wish import ACTION as RECOVER
from console.operations.recovery_wish import Wish
from console.tui.picture import address
from console.tui.run import Run
from console.tui.screens.canary import CanaryScreen
from console.tui.screens.confirm import GO, OTHER, ConfirmScreen
from console.tui.screens.error import ErrorScreen
from console.tui.screens.preflight import PreflightScreen
from console.tui.screens.recovery import RecoveryScreen
from console.tui.screens.run import RunScreen
from console.tui.threads import in_thread
from remote.wire.dumps import Canary, DumpTest
from remote.wire.plan import OnStep, Outcome, Plan, StepResult

if TYPE_CHECKING:
    from console.tui.app import HsConsoleApp

STARTS = ("server.start", restart.AS_IT_RUNS, restart.BY_PROFILE)  # what ends with a server that loads
ENDS = ("server.stop", restart.AS_IT_RUNS, restart.BY_PROFILE)  # what begins with one that goes
SERVER = "server."  # actions that end it, or make it another one
Work = Callable[[OnStep], Outcome | DumpTest | Canary]
LEAVE_WITHIN = 5.0  # seconds for a second q


class StepDone(Message):
    """A step of the run ended; posted from the thread that waits for it."""


class Actor:
    """running: the label of the action under way, from the first question to the second look; empty at rest.

    One whose link went waits for the next to learn what became of it; it stands in no other action's way, which ends
    that wait.
    """

    def __init__(self, app: HsConsoleApp) -> None:
        self._app = app
        self.running = ""
        self.run: Run | None = None
        self._begun = 0  # actions so far
        self._asked_to_leave = float("-inf")

    @property
    def in_the_way(self) -> str:
        """The label of the action that none may join; empty when there is none."""
        return "" if self.run is not None and self.run.wait.waiting else self.running

    def begin(self, action: Action) -> None:
        self.give_up()
        self.run = None
        self._begun += 1
        self._set_running(action.label)
        self._app.run_worker(self._act(action, self._begun), group="action")

    def give_up(self) -> None:
        """What became of an action whose link went is not waited for any longer."""
        if self.run is not None:
            self.run.wait.give_up()

    def may_leave(self) -> bool:
        """Leaving ends the agent, and with it an action under way: that takes a second q."""
        now = self._app.picture.clock.monotonic()
        if self.run is None or self.run.ended is not None or now - self._asked_to_leave < LEAVE_WITHIN:
            return True
        self._asked_to_leave = now
        words = f"{self.running!r} is running and would be cut off. Press q again to leave all the same."
        self._app.notify(words, severity="warning")
        return False

    def show_run(self) -> None:
        """The page of the action under way, where it was left."""
        if self.run is not None:
            show(self._app, self.run)

    async def _act(self, action: Action, number: int) -> None:
        try:
            if action.id == "dumps.test":
                await self._test(action)
            elif action.id == "canary":
                await self._canary()
            elif await self._clear_to_start(action):
                await self._confirm_and_run(action)
        except OperatorError as error:
            self._app.push_screen(ErrorScreen(error))
        finally:
            if self._begun == number:  # else another one took its place
                self.run = None
                self._set_running("")

    async def _clear_to_start(self, action: Action) -> bool:
        if action.id != "server.start":
            return True
        found = await in_thread(calls.preflight, self._app.agent, self._app.profile)
        if found.ok:
            return True
        return await self._app.push_screen_wait(PreflightScreen(found, gate=True)) is True

    async def _confirm_and_run(self, action: Action) -> None:
        app = self._app
        plan = await self._confirmed(action.id)
        if plan is None:
            return
        run = Run(action.label, plan.title, app.picture.clock.monotonic(), plan.steps, action=plan.action)
        before = app.picture.server.pid if app.picture.server else None
        if plan.action.startswith(SERVER):
            app.after_start.drop()
        if plan.action in ENDS:
            app.picture.ending = run
        await self._watch(run, partial(self._carry_out, plan, run.wait))
        if run.ok and plan.action in STARTS:
            app.after_start.expect(before)

    async def _confirmed(self, action: str) -> Plan | None:
        """The plan that the operator agreed to; None where there is none. A restart has two ways to choose from."""
        while True:
            plan = await in_thread(self._plan, action)
            action = restart.other_way(plan)
            words = restart.WORDS.get(action, "")
            answer = await self._app.push_screen_wait(ConfirmScreen(plan, address(self._app.profile), words))
            if answer != OTHER:
                return plan if answer == GO else None

    async def _test(self, action: Action) -> None:
        app = self._app
        run = Run(action.label, "Test request: ids 1…10", app.picture.clock.monotonic(), action=action.id)
        await self._watch(run, lambda on_step: calls.dump_test(app.agent, app.profile, on_step, run.wait))

    async def _canary(self) -> None:
        """Or the page of the one that runs by itself, unless that one only waits for its link."""
        app, cancel = self._app, Cancel()
        if app.picture.proving is not None and not app.picture.proving.wait.waiting:
            show(app, app.picture.proving)
            return
        app.after_start.end()
        server, run = app.picture.server, canary_run(app, cancel)
        await self._watch(run, lambda on_step: calls.canary(app.agent, app.profile, on_step, cancel, run.wait))
        if server is not None and isinstance(run.result, Canary):
            app.picture.see_canary(server.pid, run.result)
            app.look()

    async def _watch(self, run: Run, work: Work) -> None:
        """Run it, with its page in view; the operator may leave the page."""
        self.run = run
        self.show_run()
        await carry(self._app, run, work)
        self._app.look_at_patch()
        tell_end(self._app, run)

    def _plan(self, action: str) -> Plan:
        """In a thread."""
        if not action.startswith(RECOVER):
            return calls.plan(self._app.agent, action)
        from console.operations import recover  # paramiko comes with it

        return recover.plan(self._app.link, self._app.profile, Wish(last=action[len(RECOVER) + 1 :]))

    def _carry_out(self, plan: Plan, wait: Wait, on_step: OnStep) -> Outcome:
        """In a thread. A recovery goes on without the link, through the Proxmox host."""
        if plan.action != RECOVER:
            return calls.run(self._app.agent, self._app.profile, plan, on_step, wait)
        from console.operations import recover

        return recover.run(self._app.link, self._app.profile, plan, on_step, wait)

    def _set_running(self, label: str) -> None:
        self.running = label
        self._app.refresh_keys()


async def carry(app: HsConsoleApp, run: Run, work: Work) -> None:
    """Do it in a thread, with what it finds kept in `run`."""

    def on_step(step: StepResult) -> None:
        run.steps.append(step)  # before the result, whichever way the messages go
        app.post_message(StepDone())

    try:
        run.result = await in_thread(work, on_step)
    except OperatorError as error:
        run.error = error
    run.ended = app.picture.clock.monotonic()
    app.look()


def tell_end(app: HsConsoleApp, run: Run) -> None:
    """To an operator who looks elsewhere."""
    if not in_view(app, run):
        app.notify(run.summary, title=run.title, severity=run.severity)


def show(app: HsConsoleApp, run: Run) -> None:
    if in_view(app, run):
        return
    if isinstance(app.screen, RunScreen):  # of what has ended: this one takes its place
        app.switch_screen(page(run))
    else:
        app.push_screen(page(run))


def in_view(app: HsConsoleApp, run: Run) -> bool:
    return isinstance(app.screen, RunScreen) and app.screen.run is run


def canary_run(app: HsConsoleApp, cancel: Cancel) -> Run:
    return Run("canary", "Canary", app.picture.clock.monotonic(), action="canary", cancel=cancel)


def page(run: Run) -> RunScreen:
    pages = {"canary": CanaryScreen, RECOVER: RecoveryScreen}
    return pages.get(run.action, RunScreen)(run)
