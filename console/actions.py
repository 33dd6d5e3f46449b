"""Every action of hsconsole, once: its key, its words, its command. Bindings, footer, palette and help read this."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Action:
    """id: the agent's action or call, or a view. command: how the command line says it. changes: needs a confirmed plan."""

    id: str
    key: str
    label: str
    help: str
    command: str = ""
    changes: bool = False


ACTIONS: tuple[Action, ...] = (
    Action("server.start", "s", "start", "Start the server: preflight, plan, confirm", "hsconsole server start", True),
    Action("server.stop", "x", "stop", "Stop the server and prove it is gone", "hsconsole server stop", True),
    Action("patch", "p", "patch", "Check the patch; apply or revert it from there", "hsconsole patch check"),
    Action("patch.apply", "a", "apply", "Apply the patch to SGLang's model file", "hsconsole patch apply", True),
    Action("patch.revert", "v", "revert", "Put SGLang's own model file back", "hsconsole patch revert", True),
    Action("server.preflight", "f", "preflight", "What stands between now and a start", "hsconsole server preflight"),
    Action("dumps.test", "t", "test request", "Send ids 1…10 and check the dump", "hsconsole dumps test"),
    Action("log", "l", "log", "The server's log, whole screen", "hsconsole server logs --follow"),
)
