"""Paths of the laptop that lead nowhere, can't be looked at or have no home folder: told, and no fault of hsconsole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.cli.main import run
from console.config.profile import Container
from console.errors import ConfigError
from console.ssh import keys
from console.ssh.route import Hop, route

TOO_LONG = "a" * 300  # neither there nor absent, as a folder that may not be searched
NOBODY = "~nobody-of-this-name/x"
EXIT_CONFIG = 3


def login(**more: Any) -> Container:
    return Container(host="127.0.0.1", python="python3", port=1, **more)


@pytest.fixture
def ssh_config(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    path = tmp_path / "ssh_config"
    path.write_text(f"Host *\n  {request.param}\n")
    return str(path)


@pytest.mark.parametrize("given", [{"key": NOBODY}, {"ssh_config": NOBODY}, {"ssh_config": TOO_LONG}], ids=str)
def test_of_a_profile(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        route(login(**given))


@pytest.mark.parametrize(
    "ssh_config",
    [f"{option} {NOBODY}" for option in ("IdentityFile", "IdentityAgent", "UserKnownHostsFile")],
    indirect=True,
)
def test_of_sshs_own_configuration(ssh_config: str) -> None:
    with pytest.raises(ConfigError):
        route(login(ssh_config=ssh_config))


@pytest.mark.parametrize("ssh_config", [f"UserKnownHostsFile {TOO_LONG}"], indirect=True)
def test_known_hosts_that_cannot_be_looked_at_know_nobody(ssh_config: str) -> None:
    assert route(login(ssh_config=ssh_config))[-1].known_hosts[0] == Path(TOO_LONG)


def test_a_key_that_cannot_be_looked_at_is_told_with_the_reason() -> None:
    (hop,) = route(login(key=TOO_LONG))
    attempts = keys.Attempts()
    assert not list(keys._candidates(hop, keys.Agent(None), attempts))
    assert "File name too long" in str(keys._refused(hop, attempts, ["publickey"]))


def test_a_key_that_is_not_there_is_named() -> None:
    hop: Hop = route(login(key="/nonexistent/key"))[-1]
    assert "does not exist" in str(keys._refused(hop, keys.Attempts(), ["publickey"]))


@pytest.mark.parametrize(
    "words",
    [
        ("init", "--host", "h", "--key", NOBODY),
        ("init", "--host", "h", "--ssh-config", NOBODY),
        ("init", "--host", "h", "--name", TOO_LONG),
        ("--profile", TOO_LONG, "status"),
    ],
    ids=str,
)
def test_of_the_command_line(profiles: Path, words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(list(words)) == EXIT_CONFIG
    assert "The configuration can't be used" in capfd.readouterr().err
