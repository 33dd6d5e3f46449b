"""The base of every screen: keys from the registry, an answer to those that can't be used, a way back."""

from __future__ import annotations

import contextlib
from typing import ClassVar, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.events import Key
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from console.actions import ACTIONS, BY_ID
from console.tui.console import Console
from console.tui.widgets.footer import KeyFooter
from console.tui.widgets.header import Header
from console.tui.widgets.painted import Painted, rule

Result = TypeVar("Result")
BOX_MOST = 0.9  # of the screen's height above the footer, as in dialogs.tcss
ONLY_WHEN_OF_USE = ("link.retry",)  # not shown at all while it can't be used


def keys(*names: str, where: str = "") -> list[BindingType]:
    """Bindings of the actions with these ids, and of all that belong to the screen `where`."""
    wanted = [action for action in ACTIONS if action.id in names or action.where == where]
    return [Binding(a.key, f"do('{a.id}')", a.label, a.in_footer, id=a.id, tooltip=a.help) for a in wanted]


class Page(Screen[Result], Generic[Result]):
    """A screen of its own. do_<id> methods answer what only this screen can; all else goes to the app."""

    BINDINGS: ClassVar[list[BindingType]] = keys("back", "help", "quit")

    @property
    def console(self) -> Console:
        return cast(Console, self.app)

    def look(self) -> None:
        """Show what changed in the picture or with time; nothing while the page is being made or taken down."""
        with contextlib.suppress(NoMatches):
            self.draw()

    def draw(self) -> None:
        for painted in self.query(Painted):
            painted.look()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action != "do" or not self.is_attached:
            return True
        name = str(parameters[0])
        if not self.console.why_not(name):
            return True
        return False if name in ONLY_WHEN_OF_USE else None

    def action_do(self, name: str) -> None:
        own = getattr(self, f"do_{name.replace('.', '_')}", None)
        if own is None or self.console.why_not(name):
            self.console.do(name)
        else:
            own()

    def on_key(self, event: Key) -> None:
        """A key that does nothing here says why: it is grey, or another screen's."""
        bound = self.active_bindings.get(event.key)
        if bound is None:
            self.refuse(event.key)
        elif not bound.enabled and bound.binding.id in BY_ID:
            event.stop()
            self.console.do(str(bound.binding.id))

    def refuse(self, key: str) -> None:
        """Say why `key`, which this screen has not, does nothing."""
        self.console.refuse(key)

    def do_back(self) -> None:
        self.dismiss(None)


class Dialog(Page[Result], ModalScreen[Result]):
    """A box over what is there. Arrow keys choose among its buttons, which are seen however long its text is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys("back"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
    ]

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """The text scrolls in what the rest of the box leaves of the screen."""
        dialog, body = self.query_one("#dialog"), self.query_one("#dialog-body")
        rest = sum(part.size.height + part.styles.margin.height for part in dialog.children if part is not body)
        room = int((self.size.height - 1) * BOX_MOST) - dialog.gutter.height  # 1: the footer
        body.styles.max_height = max(room - rest, 1)

    def action_scroll(self, by: int) -> None:
        self.query_one("#dialog-body").scroll_relative(y=by, animate=False)

    def refuse(self, key: str) -> None:
        if any(action.key == key for action in ACTIONS):
            self.notify("First answer this, or leave it with esc.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A question is answered or left; it has no other ways out."""
        if action == "do" and parameters and parameters[0] in ("help", "quit"):
            return False
        return super().check_action(action, parameters)


class Sheet(Page[Result], Generic[Result]):
    """A page of text under the header. Subclasses say what it says."""

    BINDINGS: ClassVar[list[BindingType]] = keys("copy")

    def title_words(self) -> str:
        raise NotImplementedError

    def lines(self, width: int) -> list[Content]:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield Header(self.console.picture, id="header")
        yield Static(id="sheet-title")
        with VerticalScroll(id="sheet-scroll"):
            yield Static(id="sheet")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.look()

    def on_resize(self) -> None:
        self.look()

    def draw(self) -> None:
        super().draw()
        width = self.size.width
        fresh = Content("\n").join(self.lines(width - 4))
        sheet = self.query_one("#sheet", Static)
        if not (isinstance(sheet.content, Content) and fresh.is_same(sheet.content)):
            sheet.update(fresh)
        self.query_one("#sheet-title", Static).update(rule(self.title_words(), width))

    def do_copy(self) -> None:
        body = "\n".join(content.plain.rstrip() for content in self.lines(200))
        self.console.copy(f"{self.title_words()}\n{body}")
