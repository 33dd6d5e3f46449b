"""A read-only profile refuses in the core: every action, and every command that changes anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from console.actions import ACTIONS
from console.cli import main
from console.config import write
from console.config.profile import Container, Profile, Server
from console.errors import Refused
from console.operations import calls, recover
from console.operations.calls import Agent
from remote.wire.codec import encode
from remote.wire.plan import Plan

PROFILE = Profile(
    name="ro", read_only=True, container=Container(host="ct", python="/p"), server=Server(model_path="/m")
)
LOOKS = {
    ("audit", "show"),
    ("audit", "verify"),
    ("demo",),  # has a profile of its own
    ("doctor",),
    ("dumps", "list"),
    ("dumps", "show"),
    ("init",),  # writes a profile on the laptop; in the container it looks
    ("patch", "check"),
    ("patch", "diff"),
    ("profiles",),
    ("server", "logs"),
    ("server", "preflight"),
    ("shm", "show"),
    ("server", "state"),
    ("status",),
}
MORE: dict[tuple[str, ...], list[str]] = {
    ("dumps", "verify"): ["--all", "--level", "meaning"],
    ("server", "recover"): ["--yes"],
}
ASKS_NOBODY = {("dumps", "test"), ("dumps", "verify"), ("canary",)}
CHANGES = ("run", "recover.end", "dumps.test", "dumps.verify", "canary")


class OnlyPlans:
    """An agent that plans whatever it is asked, and must be asked for nothing that changes."""

    def call(self, name: str, **args: Any) -> Any:
        assert name not in CHANGES, f"{name} reached the agent"
        return encode(Plan(str(args.get("action", "")), "It would do something", needed=True))


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


CHANGING = [path for path in commands(main.root) if path not in LOOKS]


def test_the_list_of_what_only_looks_is_true() -> None:
    assert set(commands(main.root)) >= LOOKS
    told = {tuple(action.command.partition(" --")[0].split()[1:]) for action in ACTIONS if action.changes}
    assert told <= set(CHANGING)


@pytest.fixture(autouse=True)
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    write.write(PROFILE)

    @contextlib.contextmanager
    def open_agent(profile: Profile) -> Iterator[Agent]:
        yield OnlyPlans()

    from console.cli import recovery, session

    monkeypatch.setattr(session, "open_agent", open_agent)
    monkeypatch.setattr(recovery, "open_agent", open_agent)
    monkeypatch.setattr(recover, "plan", lambda *_: Plan("server.recover", "Free it", needed=True))


@pytest.mark.parametrize("path", CHANGING, ids=" ".join)
def test_every_command_that_changes(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    more = MORE.get(path, [] if path in ASKS_NOBODY else ["--yes"])
    assert main.run(["--profile", "ro", *path, *more]) == Refused.exit_code
    assert "read-only" in capsys.readouterr().err


@pytest.mark.parametrize("action", [action for action in ACTIONS if action.changes], ids=lambda action: action.id)
def test_every_action(action: Any) -> None:
    plan = Plan(action.id, "x", needed=True, basis={"processes": [[1, 2]]})
    run = recover.run if action.id.startswith("server.recover") else calls.run
    with pytest.raises(Refused, match="read-only"):
        run(OnlyPlans(), PROFILE, plan, lambda _: None)


def test_the_environment_can_make_any_profile_read_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import msgspec

    write.write(msgspec.structs.replace(PROFILE, read_only=False), overwrite=True)
    monkeypatch.setenv("HSCONSOLE_READ_ONLY", "true")
    assert main.run(["--profile", "ro", "server", "stop", "--yes"]) == Refused.exit_code
