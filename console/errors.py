"""Errors of the laptop's half. The base is shared with the agent, so the screen shows both alike."""

from __future__ import annotations

from remote.wire.errors import (
    ChangedSincePlan,
    DumpError,
    ErrorReport,
    OperatorError,
    PatchError,
    Refused,
    ServerError,
    WireError,
)

__all__ = [
    "AuthenticationFailed",
    "ChangedSincePlan",
    "ConfigError",
    "DemoError",
    "DumpError",
    "ErrorReport",
    "HostKeyChanged",
    "HostKeyUnknown",
    "LinkError",
    "LinkLost",
    "NoAnswer",
    "NotAsked",
    "OperatorError",
    "PatchError",
    "Refused",
    "RemoteFault",
    "ServerError",
    "WireError",
    "as_operator_error",
    "from_report",
]


class ConfigError(OperatorError):
    id = "config"
    title = "The configuration can't be used"
    exit_code = 3


class LinkError(OperatorError):
    id = "link"
    title = "No link over SSH"
    exit_code = 4


class LinkLost(LinkError):
    id = "link.lost"
    title = "The link was lost"


class NotAsked(LinkLost):
    """There was no link to ask over: nothing was sent."""


class NoAnswer(LinkError):
    """The link lives, but a call got no answer in time."""

    id = "link.no_answer"
    title = "The agent did not answer in time"


class HostKeyUnknown(LinkError):
    id = "link.host_key_unknown"
    title = "The host is not known yet"


class HostKeyChanged(LinkError):
    id = "link.host_key_changed"
    title = "THE HOST KEY HAS CHANGED"


class AuthenticationFailed(LinkError):
    id = "link.authentication"
    title = "The host refused the login"


class DemoError(OperatorError):
    id = "demo"
    title = "The demo could not be set up"
    exit_code = 9


class RemoteFault(OperatorError):
    """A fault of the agent itself, or an error of a kind that is not known here."""

    id = "agent"
    title = "The agent failed"


def as_operator_error(error: Exception) -> OperatorError:
    """`error` itself, or what can be told of a fault: that belongs on the screen, but never as a traceback."""
    if isinstance(error, OperatorError):
        return error
    return OperatorError(f"{type(error).__name__}: {error}", "This is a fault of hsconsole itself; please report it.")


def from_report(report: ErrorReport) -> OperatorError:
    """The error that an agent's report tells of: of the class whose id begins the report's, with the report's words."""
    known = (Refused, PatchError, ServerError, DumpError, WireError)
    kind = next((k for k in known if report.id == k.id or report.id.startswith(k.id + ".")), RemoteFault)
    error = (ChangedSincePlan if report.id == ChangedSincePlan.id else kind)(report.what, report.remedy)
    error.id, error.title = report.id, report.title
    return error
