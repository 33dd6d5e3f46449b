"""Every action of hsconsole, once: its key, its words, its command. Bindings, footer, palette and help read this."""

from __future__ import annotations

import dataclasses

ANYWHERE = "anywhere"
MAIN = "main"
PATCH = "patch"
LOG = "log"
RECOVERY = "recovery"  # the page of a recovery that was not enough
PAGE = "page"  # any page or dialogue that has something to copy


@dataclasses.dataclass(frozen=True)
class Action:
    """id: the agent's action or call, or a view. command: how the command line says it.

    changes: needs a confirmed plan.
    area, verb: its name in the palette, 'area: verb'; without a verb the label is it.
    where: the screen whose key it is.
    needs_link: it asks the container, so it waits for a live link.
    in_footer: False for a key that is shown where it is of use.
    leaves_trace: changes nothing that is there but leaves something behind, so a read-only profile refuses it too.
    """

    id: str
    key: str
    label: str
    help: str
    command: str = ""
    changes: bool = False
    area: str = "screen"
    verb: str = ""
    where: str = MAIN
    needs_link: bool = False
    leaves_trace: bool = False
    in_footer: bool = True

    @property
    def acts(self) -> bool:
        """It is confirmed or at least told as it goes, one at a time, and never for a read-only profile."""
        return self.changes or self.leaves_trace


ACTIONS: tuple[Action, ...] = (
    Action(
        "server.start",
        "s",
        "start",
        "Start the server: preflight, plan, confirm",
        "hsconsole server start",
        changes=True,
        area="server",
        needs_link=True,
    ),
    Action(
        "server.stop",
        "x",
        "stop",
        "Stop the server and prove it is gone",
        "hsconsole server stop",
        changes=True,
        area="server",
        needs_link=True,
    ),
    Action(
        "server.restart",
        "R",
        "restart",
        "Stop the server and start it again with its flags kept",
        "hsconsole server restart",
        changes=True,
        area="server",
        needs_link=True,
        in_footer=False,
    ),
    Action(
        "server.recover",
        "z",
        "recover",
        "Free the port and clear what a dead server left",
        "hsconsole server recover",
        changes=True,
        area="server",
    ),
    Action(
        "patch",
        "p",
        "patch",
        "Check the patch; apply or revert it from there",
        "hsconsole patch check",
        area="patch",
        verb="check",
        needs_link=True,
    ),
    Action(
        "patch.apply",
        "a",
        "apply",
        "Apply the patch to SGLang's model file",
        "hsconsole patch apply",
        changes=True,
        area="patch",
        where=PATCH,
        needs_link=True,
    ),
    Action(
        "patch.revert",
        "v",
        "revert",
        "Put SGLang's own model file back",
        "hsconsole patch revert",
        changes=True,
        area="patch",
        where=PATCH,
        needs_link=True,
    ),
    Action(
        "patch.diff",
        "d",
        "diff",
        "What apply or revert would change in the model file",
        "hsconsole patch diff",
        area="patch",
        where=PATCH,
        needs_link=True,
    ),
    Action(
        "server.preflight",
        "f",
        "preflight",
        "What stands between now and a start",
        "hsconsole server preflight",
        area="server",
        needs_link=True,
    ),
    Action(
        "shm.clean",
        "m",
        "clean memory",
        "Remove what dead processes left in /dev/shm; never dumps",
        "hsconsole shm clean",
        changes=True,
        area="shm",
        verb="clean",
        needs_link=True,
        in_footer=False,
    ),
    Action(
        "dumps.test",
        "t",
        "test request",
        "Send ids 1…10 and check the dump",
        "hsconsole dumps test",
        area="dumps",
        needs_link=True,
        leaves_trace=True,
    ),
    Action(
        "canary",
        "C",
        "canary",
        "Prove that the dumps of the running server mean what they should",
        "hsconsole canary",
        area="server",
        verb="canary",
        needs_link=True,
        leaves_trace=True,
    ),
    Action(
        "dumps.verify",
        "v",
        "verify",
        "Look at every number of the selected or open request",
        "hsconsole dumps verify NUMBER",
        area="dumps",
        needs_link=True,
    ),
    Action(
        "dumps.verify_all",
        "V",
        "verify all",
        "Look at every number of every request in the folder",
        "hsconsole dumps verify --all",
        area="dumps",
        needs_link=True,
    ),
    Action(
        "dumps.show",
        "enter",
        "open",
        "The selected request: metadata, files, checks",
        "hsconsole dumps show NUMBER",
        area="dumps",
        needs_link=True,
    ),
    Action(
        "dumps.filter", "slash", "filter", "Show only requests whose number, rid, state or note match", area="dumps"
    ),
    Action("log", "l", "log", "The server's log, whole screen", "hsconsole server logs --follow", area="server"),
    Action("log.search", "slash", "search", "Find text in the log", area="log", where=LOG),
    Action("log.next", "n", "next", "The next line that matches", area="log", where=LOG),
    Action("log.previous", "N", "previous", "The line before that matches", area="log", where=LOG),
    Action("log.follow", "f", "follow", "Back to the newest line, and follow", area="log", where=LOG),
    Action(
        "server.recover.pythons",
        "P",
        "end Pythons",
        "Last resort: end each Python process",
        "hsconsole server recover --last-resort pythons",
        changes=True,
        area="server",
        where=RECOVERY,
    ),
    Action(
        "server.recover.restart",
        "R",
        "restart",
        "Last resort: restart the container",
        "hsconsole server recover --last-resort restart",
        changes=True,
        area="server",
        where=RECOVERY,
    ),
    Action("copy", "c", "copy", "Copy what this page says", where=PAGE),
    Action("back", "escape", "back", "Back to where you came from", where=ANYWHERE),
    Action("link.retry", "r", "retry now", "Try the link at once instead of waiting", area="link", where=MAIN),
    Action("help", "question_mark", "help", "Every key, from the same list as the keys themselves", where=ANYWHERE),
    Action("quit", "q", "quit", "Leave; the server and what runs in the container live on", where=ANYWHERE),
)

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}
