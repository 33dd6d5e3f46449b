"""A host to reach over ssh, with an agent whose calls are those of table.py."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console import client as clients
from console.client import AgentClient
from console.config.profile import Container, Profile, Server
from console.ssh import bootstrap, pack
from tests.link.sshd import SshConfig, Sshd
from tests.living import PATIENCE

TABLE = Path(__file__).with_name("table.py")


@functools.cache
def packed() -> pack.Pack:
    return pack.build({**pack.sources(), "remote/agent/calls.py": TABLE.read_bytes()})


@pytest.fixture(autouse=True)
def _agent_of_the_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap, "pack", packed)
    monkeypatch.setattr(bootstrap, "PLACES", ("CACHE/hsconsole", str(tmp_path / "second"), str(tmp_path / "third")))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if "shared_client" in request.fixturenames:
        request.getfixturevalue("shared_client")
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + PATIENCE
    while left := [thread.name for thread in threading.enumerate() if thread not in before]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    made: list[Sshd] = []

    def make(name: str = "ct", **options: str) -> Sshd:
        made.append(Sshd(tmp_path / name))
        return made[-1].start(**options)

    yield make
    for sshd in made:
        sshd.stop()


@pytest.fixture
def sshd(make_sshd: Callable[..., Sshd]) -> Sshd:
    return make_sshd()


@pytest.fixture
def config(tmp_path: Path) -> SshConfig:
    return SshConfig(tmp_path / "ssh")


@pytest.fixture
def profile(sshd: Sshd, config: SshConfig) -> Profile:
    """The profile of `sshd`, known as `ct`."""
    config.host("ct", sshd)
    return profile_of("ct", config)


def profile_of(host: str, config: SshConfig, python: str = sys.executable, **more: Any) -> Profile:
    container = Container(host=host, python=python, ssh_config=str(config.path), **more)
    return Profile(name="test", container=container, server=Server(model_path="/models/m", port=8123))


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentClient]:
    """One agent for tests that only ask."""
    folder = tmp_path_factory.mktemp("shared")
    sshd, config = Sshd(folder / "ct").start(), SshConfig(folder / "ssh")
    config.host("ct", sshd)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "pack", packed)
        opened = clients.connect(profile_of("ct", config))
    yield opened
    opened.close()
    sshd.stop()


@pytest.fixture
def client(profile: Profile) -> Iterator[AgentClient]:
    opened = clients.connect(profile)
    yield opened
    opened.close()
