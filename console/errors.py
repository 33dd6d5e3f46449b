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
    "OperatorError",
    "PatchError",
    "Refused",
    "RemoteFault",
    "ServerError",
    "WireError",
    "from_report",
]


class ConfigError(OperatorError):
    id = "config"
    title = "The configuration can't be used"
    exit_code = 3


class LinkError(OperatorError):
    id = "link"
    title = "No link to the container"
    exit_code = 4


class LinkLost(LinkError):
    id = "link.lost"
    title = "The link was lost"


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
    """An error of the agent with no class of its own here, or a fault of the agent itself."""

    id = "agent"
    title = "The agent failed"

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(report.what, report.remedy)
        self.id, self.title = report.id, report.title


def from_report(report: ErrorReport) -> OperatorError:
    """The error that an agent's report tells of, as its own class where this half knows it."""
    for kind in (ChangedSincePlan, Refused, PatchError, ServerError, DumpError, WireError):
        if kind.id == report.id:
            return kind(report.what, report.remedy)
    return RemoteFault(report)
