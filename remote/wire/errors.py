"""The one error base of hsconsole: what happened, where, and what to do next."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ErrorReport:
    """An OperatorError as it crosses the link."""

    id: str
    title: str
    what: str
    remedy: str = ""


class OperatorError(Exception):
    """An error an operator can act on. Subclasses set `id` (stable, dotted), `title` and `exit_code`.

    what: what happened and where (file, key, host, pid), free of secrets.
    remedy: what to do next; empty only where there is nothing to do.
    """

    id = "error"
    title = "hsconsole failed"
    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.title}: {self.what}" + (f"\n{self.remedy}" if self.remedy else "")

    def report(self) -> ErrorReport:
        return ErrorReport(self.id, self.title, self.what, self.remedy)


class WireError(OperatorError):
    id = "link.wire"
    title = "The agent and the console do not understand each other"
    exit_code = 4


class Refused(OperatorError):
    """A precondition does not hold: nothing was changed."""

    id = "refused"
    title = "Refused"
    exit_code = 5


class ChangedSincePlan(Refused):
    """What the operator confirmed is no longer what is there: nothing was changed."""

    id = "refused.changed"
    title = "Something changed since the plan was shown"


class PatchError(OperatorError):
    id = "patch"
    title = "The patch could not be applied, checked or reverted"
    exit_code = 6


class ServerError(OperatorError):
    id = "server"
    title = "The server could not be started, asked or stopped"
    exit_code = 7


class DumpError(OperatorError):
    id = "dumps"
    title = "The dumps could not be read"
    exit_code = 8
