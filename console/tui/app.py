"""The app: owns the picture and the link, routes what arrives to the screens, and what is pressed to who can do it."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from textual import constants, on, work
from textual.app import App
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.worker import WorkerFailed

from console.actions import BY_ID
from console.config.profile import Profile
from console.errors import LinkLost, OperatorError
from console.link import LinkPhase
from console.tui import themes
from console.tui.act import Actor, StepDone
from console.tui.after_start import AfterStart
from console.tui.availability import elsewhere, of_key, why_not
from console.tui.clipboard import put
from console.tui.clock import Clock, SystemClock
from console.tui.console import LinkFactory, LinkLike
from console.tui.feed import Feed
from console.tui.host_keys import HostKeys
from console.tui.looks import Looks
from console.tui.palette import ActionCommands
from console.tui.picture import Picture
from console.tui.screens.error import ErrorScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.log import LogScreen
from console.tui.screens.main import MainScreen
from console.tui.screens.page import Page
from console.tui.screens.patch import PatchScreen
from console.tui.screens.preflight import PreflightScreen
from console.tui.screens.request import RequestScreen
from console.tui.screens.verify import VerifyScreen
from console.tui.text import line
from console.tui.threads import in_thread
from console.tui.verification import Verification
from console.tui.widgets.dumps import DumpTable
from console.tui.widgets.footer import KEYS

COALESCE = 0.05  # seconds that arriving values wait for others
STREAMS: dict[str, dict[str, Any]] = {
    "watch.server": {},
    "watch.gpus": {},
    "watch.shm": {},
    "watch.dumps": {"last": 1000},
    "watch.log": {"lines": 500},
}


class HsConsoleApp(App[None]):
    """The screen of one profile. It never ends by itself: a lost link is a state it shows."""

    TITLE = "hsconsole"
    CSS_PATH = [  # noqa: RUF012 - Textual's own type
        "styles/app.tcss",
        "styles/main.tcss",
        "styles/pages.tcss",
        "styles/dialogs.tcss",
    ]
    COMMANDS = {ActionCommands}  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-medium"), (44, "-tall")]  # noqa: RUF012

    class Arrived(Message):
        """Values wait in the feed."""

    def __init__(
        self, profile: Profile, link_factory: LinkFactory, hint: str = "", *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self.animation_level = "none"  # a page key must not lose a race against a new log line
        self.profile = profile
        self.picture = Picture(profile, clock or SystemClock())
        self.hint = hint
        self.link: LinkLike | None = None
        self._link_factory = link_factory
        self._feed = Feed(lambda: self.post_message(self.Arrived()))
        self._host_keys = HostKeys(self)
        self._closing = False
        self._actor = Actor(self)
        self.after_start = AfterStart(self)
        self._looks = Looks(self)

    def get_default_screen(self) -> MainScreen:
        return MainScreen(self.picture, self.hint)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.defaults(self.current_theme.dark)

    @property
    def fault(self) -> BaseException | None:
        """What the screen ended by, unless by the operator."""
        return self._exception.error if isinstance(self._exception, WorkerFailed) else self._exception

    def _fatal_error(self) -> None:
        """Leave. Textual's own way would print a traceback with all locals: an operator gets none, and no secrets."""
        self._close_messages_no_wait()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,  # noqa: ARG002 - never: remote words may be in it
    ) -> None:
        """A notice, harmless whoever's words are in it and in its title."""
        words, heading = line(message, 300), line(title, 100)
        super().notify(words, title=heading, severity=severity, timeout=timeout, markup=False)

    def on_mount(self) -> None:
        for theme in (themes.DARK, themes.LIGHT, themes.MONO):
            self.register_theme(theme)
        ours = themes.MONO if self.no_color else themes.DARK
        # TEXTUAL_THEME is the operator's own choice
        self.theme = ours.name if constants.DEFAULT_THEME == "textual-dark" else constants.DEFAULT_THEME
        # takes too what a timer of `_soon` should have: Textual skips one that a busy machine lets begin too late
        self.set_interval(1.0, self._take)
        self.call_after_refresh(self._open_link)

    def on_unmount(self) -> None:
        self._closing = True
        self._host_keys.close()
        self._actor.give_up()
        self.after_start.drop()
        if self.link is not None:
            self.link.close()

    # The link

    def _open_link(self) -> None:
        self.picture.connect()  # also so that `r` waits for what comes of it
        self.refresh_keys()
        self.look()
        self._make_link_in_thread()

    @work
    async def _make_link_in_thread(self) -> None:
        try:
            await in_thread(self._make_link)
        except OperatorError as error:
            now = self.picture.clock.monotonic()
            state = dataclasses.replace(self.picture.link, phase=LinkPhase.REFUSED, error=error, since=now)
            self._feed.on_link(state)

    def _make_link(self) -> None:
        """In a thread: the factory imports paramiko, which takes longer than the first paint may."""
        link = self._link_factory(self.profile, self._feed.on_link, self._host_keys.ask)
        for name, args in STREAMS.items():
            link.stream(name, self._feed.on_value, **args)
        self.link = link  # before it can say that it is live
        if not self._closing:
            link.start()

    @on(Arrived)
    def _soon(self) -> None:
        self.set_timer(COALESCE, self._take)

    def _take(self) -> None:
        links, values = self._feed.take()
        before = self.picture.link.phase, self.picture.server and (self.picture.server.phase, self.picture.server.pid)
        for state in links:
            self._see_link(state)
        for value in values:
            self.picture.see(value)
        self.after_start.see()
        after = self.picture.link.phase, self.picture.server and (self.picture.server.phase, self.picture.server.pid)
        if before != after:
            self._looks.expect_change()
            self.refresh_keys()
        self.look()
        self._looks.when_due(acting=bool(self._actor.running))

    def _see_link(self, state: Any) -> None:
        known = self.picture.link.error
        self.picture.see_link(state)
        if state.phase is LinkPhase.REFUSED and state.error is not None and state.error is not known:
            self.push_screen(ErrorScreen(state.error))

    def look(self) -> None:
        """Let every screen that can be seen show what changed."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Page):
                screen.look()
            if not screen.is_modal:
                return

    def look_at_patch(self) -> None:
        self._looks.at_patch()

    def refresh_keys(self) -> None:
        for screen in self.screen_stack:
            screen.refresh_bindings()

    # What the screens may ask

    @property
    def agent(self) -> LinkLike:
        if self.link is None:
            raise LinkLost("the link is not up yet", "It goes on trying; the header says how far it is.")
        return self.link

    def runs(self, action: str) -> bool:
        """Whether the operator's own `action` is under way."""
        return self._actor.run is not None and self._actor.run.action == action

    def why_not(self, action: str) -> str:
        return why_not(BY_ID[action], self.picture, self._actor.in_the_way)

    def do(self, action: str) -> None:
        known, reason = BY_ID[action], self.why_not(action)
        if reason:
            self.notify(reason, title=known.label, severity="warning")
            if known.acts:
                self._actor.show_run()
        elif known.acts:
            self._actor.begin(known)
        else:
            own = getattr(self, f"_do_{action.replace('.', '_')}", partial(self.refuse, known.key))
            own()

    def refuse(self, key: str) -> None:
        """Say why `key` does nothing on this screen, where it does something on another."""
        reasons = [self.why_not(action.id) for action in of_key(key)]
        words = reasons[0] if reasons and all(reasons) else elsewhere(key)
        if words:
            self.notify(words, title=KEYS.get(key, key))

    def copy(self, text: str) -> None:
        put(self, text)
        self.notify("Copied.", timeout=2)

    def _do_patch(self) -> None:
        self.push_screen(PatchScreen())

    def _do_server_preflight(self) -> None:
        self.push_screen(PreflightScreen())

    def _do_dumps_verify_all(self) -> None:
        self.push_screen(VerifyScreen(Verification(None, self.picture.clock.monotonic())))

    def _do_log(self) -> None:
        self.push_screen(LogScreen())

    def _do_help(self) -> None:
        self.push_screen(HelpScreen())

    def _do_link_retry(self) -> None:
        if self.link is None:  # it could not even be made
            self._open_link()
        else:
            self.link.retry_now()

    def _do_quit(self) -> None:
        if self._actor.may_leave():
            self.exit()

    async def action_quit(self) -> None:
        """Textual's own ctrl+q asks no less than q."""
        self._do_quit()

    def action_help_quit(self) -> None:
        self.notify("q leaves hsconsole.", title="ctrl+c")

    @on(StepDone)
    def _show_step(self) -> None:
        self.refresh_keys()
        self.look()

    @on(DumpTable.Opened)
    def _open_request(self, event: DumpTable.Opened) -> None:
        self.push_screen(RequestScreen(event.number))
