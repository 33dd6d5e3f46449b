"""The ways to a container that is not well: one that fails leads to the next, and none is waited for twice."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from console.config.profile import Profile, Proxmox
from console.errors import LinkError, NoAnswer, OperatorError
from console.operations import recovery_ways
from console.operations.calls import Agent
from console.operations.hostview import HostFacts
from console.operations.recovery_ways import Ways
from console.ssh.exchange import Ran
from tests.unit.operations.herehost import no_way, profile

FAULT = OperatorError("recover.facts: OSError: no more processes", "Please report this.")


class Failing:
    """An agent whose every call fails."""

    def call(self, name: str, **_: Any) -> Any:
        raise FAULT


class LookingHost:
    """A host that can look, and nothing else."""

    prefix, limits = "", ""

    def __init__(self, proxmox: Proxmox) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def look(self, port: int) -> HostFacts:
        return HostFacts(7, ("0.0.0.0:8000",))

    def execute(self, *words: str, **_: Any) -> Ran:
        return Ran(0, b"listens\n", b"")


class Hanging(Failing):
    """An agent whose link lives, and who gives no answer."""

    def call(self, name: str, **_: Any) -> Any:
        raise NoAnswer(f"{name}: nothing for 30 s")


def alone() -> Profile:
    return msgspec.structs.replace(profile(), proxmox=None)


def test_of_an_agent_that_fails_the_host_is_the_way_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_ways, "ProxmoxHost", LookingHost)
    monkeypatch.setattr(Ways, "_agent_by_host", no_way)
    with Ways(Failing(), profile()) as ways:
        seen = ways.see()
    assert (seen.way, seen.facts, seen.host) == ("host", None, HostFacts(7, ("0.0.0.0:8000",)))


def test_and_where_there_is_none_its_fault_is_told() -> None:
    """Not that the profile names no host, which is told as what to do."""
    with Ways(Failing(), alone()) as ways, pytest.raises(OperatorError, match="no more processes") as told:
        ways.see()
    assert "[proxmox]" in told.value.remedy


def test_and_where_the_host_is_not_to_be_had_either_both_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(proxmox: Proxmox) -> Any:
        raise LinkError("no answer within 10 s")

    monkeypatch.setattr(recovery_ways, "ProxmoxHost", hang)
    with Ways(Failing(), profile()) as ways, pytest.raises(LinkError) as told:
        ways.see()
    assert told.value.what == f"{FAULT.what}; and by the Proxmox host: no answer within 10 s"


@pytest.mark.parametrize(("agent", "next_asked"), [(Failing(), "agent"), (Hanging(), "identity")])
def test_what_had_no_answer_inside_is_not_asked_there_again(
    monkeypatch: pytest.MonkeyPatch, agent: Agent, next_asked: str
) -> None:
    """An agent by `pct exec` would wait for the same. Whether it is the right container is looked at all the same."""
    asked: list[str] = []

    def by_host(ways: Ways) -> Any:
        asked.append("agent")
        return no_way(ways)

    monkeypatch.setattr(recovery_ways, "ProxmoxHost", LookingHost)
    monkeypatch.setattr(Ways, "_check_identity", lambda ways: asked.append("identity"))
    monkeypatch.setattr(Ways, "_agent_by_host", by_host)
    with Ways(agent, profile()) as ways:
        seen = ways.see()
    assert asked == [next_asked]
    assert (seen.way, seen.facts, seen.host) == ("host", None, HostFacts(7, ("0.0.0.0:8000",)))
    assert seen.no_inside


def test_a_host_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def hang(proxmox: Proxmox) -> Any:
        asked.append(proxmox.host)
        raise LinkError("no answer within 10 s")

    monkeypatch.setattr(recovery_ways, "ProxmoxHost", hang)
    with Ways(None, profile()) as ways, pytest.raises(LinkError, match="no answer within 10 s"):
        ways.see()
    assert asked == ["pve1"]


@pytest.mark.parametrize(
    ("sockets", "said"),
    [
        ("LISTEN 0 128 0.0.0.0:22 0.0.0.0:*", "listens"),
        ("LISTEN 0 128 0.0.0.0:22 0.0.0.0:*\nLISTEN 0 128 [::]:22 [::]:*", "listens"),
        ("LISTEN 0 128 0.0.0.0:2222 0.0.0.0:*", "absent"),
        ("", "absent"),
        ("LISTEN 2 128 0.0.0.0:22 0.0.0.0:*", "deaf"),
        ("LISTEN 2 128 0.0.0.0:22 0.0.0.0:*\nLISTEN 0 128 [::]:22 [::]:*", "deaf"),
    ],
)
def test_an_sshd_that_accepts_nobody_is_as_good_as_dead(tmp_path: Path, sockets: str, said: str) -> None:
    (tmp_path / "ss").write_text(f"#!/bin/sh\ncat <<'END'\n{sockets}\nEND\n")
    (tmp_path / "ss").chmod(0o755)
    script = recovery_ways.SSHD_LISTENS.format(port=22)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"{said}\n"


def test_an_sshd_that_binds_a_moment_later_listens(tmp_path: Path) -> None:
    (tmp_path / "ss").write_text("#!/bin/sh\n[ -e $0.asked ] && echo 'LISTEN 0 128 0.0.0.0:22 0.0.0.0:*'\n>$0.asked\n")
    (tmp_path / "ss").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    line = ["sh", "-c", recovery_ways.SSHD_LISTENS.format(port=22)]
    assert subprocess.run(line, env=env, capture_output=True, text=True, check=False).stdout == "listens\n"
