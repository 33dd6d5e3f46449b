"""The ways a login goes wrong or odd, with the container's own sshd: cases L01 to L03 and L05 to L08, and fifty drops.

L04 is in test_links.py. tests/link has more of each, with an sshd of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console.client import connect
from console.config.profile import Profile
from console.errors import HostKeyChanged, HostKeyUnknown, LinkError
from console.ssh import bootstrap
from console.ssh.connection import Connection
from tests.bed.conftest import profile_at
from tests.bed.container import Ground
from tests.bed.machines import CONTAINER, HOST, SSH_CONFIG, Bed
from tests.bed.test_links import start_sshd, stop_sshd
from tests.link import drops
from tests.link.conftest import packed
from tests.link.test_host_keys import shown
from tests.link.test_places import BANNERS, where

HOME = "/root/.cache/hsconsole"
PYTHON = "/root/python"
PYTHONS = {
    "none": ("true", "does not exist"),
    "old": (f"printf '#!/bin/sh\\nexit 1\\n' >{PYTHON}; chmod 755 {PYTHON}", "is no Python 3.9 or newer"),
    "not executable": (f"touch {PYTHON}; chmod 644 {PYTHON}", "can't be run"),
}
VISITORS = "/home/visitor/.cache"
FOLDERS = (VISITORS, "/var/tmp", "/dev/shm", "/tmp")
FULL = "size=64k"
# how each of these folders is mounted, and which of them gets the agent
PLACES = {
    "home not writable": (("ro",), "/var/tmp"),
    "home full": ((FULL,), "/var/tmp"),
    "home not writable, others full": (("ro", FULL, FULL), "/tmp"),
    "only a /tmp with noexec": (("ro", "ro", "ro", "noexec"), "/tmp"),
    "none": (("ro", FULL, "ro", FULL), None),
}


@dataclasses.dataclass(frozen=True)
class Login:
    """known_hosts: the operator's own. machines: who must be known there, and the name of its key in the bed."""

    profile: Profile
    known_hosts: Path
    machines: dict[str, str]


@pytest.fixture(autouse=True)
def _agent_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "pack", packed)


@pytest.fixture(params=["straight", "through the host"])
def login(request: pytest.FixtureRequest, bed: Bed, profile: Profile, ground: Ground, tmp_path: Path) -> Login:
    jump = request.param == "through the host"
    for name in ("client", "known_hosts"):
        shutil.copy(bed.keys / name, tmp_path / name)
    text = SSH_CONFIG.format(container=CONTAINER, host=HOST, keys=tmp_path)
    config = tmp_path / "ssh_config"
    config.write_text(text.replace("Host container\n", "Host container\n  ProxyJump proxmox\n") if jump else text)
    machines = {**({HOST: "host"} if jump else {}), CONTAINER: "container"}
    ground.sh(f"rm -rf {HOME}")  # it has to be pushed again
    return Login(profile_at(config), tmp_path / "known_hosts", machines)


@contextlib.contextmanager
def sshd_with(option: str, ground: Ground) -> Iterator[None]:
    file = "/etc/ssh/sshd_config.d/bed.conf"
    ground.sh(f"cat >{file}", f"{option}\n")
    try:
        stop_sshd(ground)
        start_sshd(ground)
        yield
    finally:
        ground.sh(f"rm {file}")
        stop_sshd(ground)
        start_sshd(ground)


def test_l01_a_changed_key_stops_hard(login: Login, ground: Ground) -> None:
    """No answer leads past it; what the operator does to known_hosts by the line that it names, does."""
    key = "/etc/ssh/other"
    ground.sh(f"rm -f {key}; ssh-keygen -q -t ed25519 -N '' -f {key}")
    found = ground.sh(f"ssh-keygen -lf {key}.pub").split()[1]
    before = login.known_hosts.read_bytes()
    with sshd_with(f"HostKey {key}", ground):
        with pytest.raises(HostKeyChanged, match=re.escape(found)) as caught:
            connect(login.profile, ask_host_key=lambda *_: pytest.fail("it must not ask"))
        assert login.known_hosts.read_bytes() == before
        line = shlex.split(caught.value.remedy.partition(" was: ")[2])
        subprocess.run(line, check=True, capture_output=True)
        with pytest.raises(HostKeyUnknown, match=re.escape(found)):
            connect(login.profile)
        connect(login.profile, ask_host_key=lambda *_: True).close()


def test_l02_an_unknown_host_is_asked_about_once(login: Login, bed: Bed) -> None:
    keys = [(name, "ssh-ed25519", shown(bed.keys / key)) for name, key in login.machines.items()]
    login.known_hosts.unlink()
    with pytest.raises(HostKeyUnknown, match=re.escape(keys[0][2])):
        connect(login.profile)
    assert not login.known_hosts.exists()
    asked: list[tuple[str, str, str]] = []

    def ask(*key: str) -> bool:
        asked.append(key)  # type: ignore[arg-type]
        return True

    for _ in range(2):
        connect(login.profile, ask_host_key=ask).close()
    assert asked == keys
    assert login.known_hosts.read_text() == (bed.keys / "known_hosts").read_text() or len(keys) == 1


def test_l03_five_mebibytes_on_stdout_and_stderr(login: Login) -> None:
    count = 5 << 20
    client = connect(login.profile)
    assert client.call("flood", count=count) == count
    assert len(client.call("big", count=count)) == count
    client.close()


@pytest.mark.parametrize("banner", BANNERS.values(), ids=BANNERS.keys())
def test_l05_a_shell_that_prints(login: Login, ground: Ground, banner: str) -> None:
    ground.sh("cd /root && cp -a .bashrc kept && cat >.bashrc", f"{banner}\n")
    try:
        connection = Connection()
        connection.open(login.profile.container)
        assert connection.run("true").out, "the banner does print"
        connection.close()
        assert where(login.profile) == HOME
    finally:
        ground.sh("mv /root/kept /root/.bashrc")


@contextlib.contextmanager
def mounted(ground: Ground, options: tuple[str, ...]) -> Iterator[None]:
    ground.sh(f"install -d -o visitor {VISITORS}")
    mounts = [f"mount -t tmpfs -o mode=1777,{o} tmpfs {folder}" for folder, o in zip(FOLDERS, options, strict=False)]
    try:
        ground.sh(" && ".join(mounts))
        yield
    finally:
        for folder in FOLDERS[: len(options)]:
            ground.bed.inside("umount", "-l", folder)
        ground.sh(f"rm -rf {VISITORS} {' '.join(f'{folder}/hsconsole-*' for folder in FOLDERS[1:])}")


@pytest.mark.parametrize(("options", "wanted"), PLACES.values(), ids=PLACES.keys())
def test_l06_places_that_take_no_agent(
    bed: Bed, profile: Profile, ground: Ground, options: tuple[str, ...], wanted: str | None
) -> None:
    visitor = profile_at(bed.ssh_config, user="visitor")
    number = ground.sh("id -u visitor")
    with mounted(ground, options):
        if wanted:
            assert where(visitor) == f"{wanted}/hsconsole-{number}"
            return
        with pytest.raises(LinkError, match="no place for the agent") as caught:
            connect(visitor)
    words = {"ro": "Read-only file system", FULL: "No space left on device"}
    folders = (f"{VISITORS}/hsconsole", *(f"{folder}/hsconsole-{number}" for folder in FOLDERS[1:]))
    told = [f"{folder}: {words[option]}" for folder, option in zip(folders, options, strict=True)]
    assert [line.strip() for line in caught.value.what.splitlines()[1:]] == told


def with_python(profile: Profile, python: str) -> Profile:
    return msgspec.structs.replace(profile, container=msgspec.structs.replace(profile.container, python=python))


@pytest.mark.parametrize(("make", "why"), PYTHONS.values(), ids=PYTHONS.keys())
def test_l07_the_python_of_the_profile_is_none(login: Login, ground: Ground, make: str, why: str) -> None:
    ground.sh(make)
    try:
        client = connect(with_python(login.profile, PYTHON))
    finally:
        ground.sh(f"rm -f {PYTHON}")
    (note,) = client.hello.notes
    client.close()
    assert f"{PYTHON} {why}" in note
    assert "without SGLang's environment" in note


def test_l07_no_python_at_all(login: Login, ground: Ground) -> None:
    ground.sh("chmod a-x /usr/bin/python3*")
    try:
        with pytest.raises(LinkError, match=r"no usable Python 3\.9 or newer \(tried /usr/bin/python3, python3\)"):
            connect(login.profile)
    finally:
        ground.sh("chmod a+x /usr/bin/python3*")


def test_l08_one_channel_at_a_time(login: Login, ground: Ground) -> None:
    with sshd_with("MaxSessions 1", ground):
        assert [where(login.profile) for _ in range(2)] == [HOME, HOME], "pushed, and found there"


def test_fifty_drops_leave_nothing(profile: Profile, ground: Ground) -> None:
    """Of five links. No process of any kind is left in the container either: the table of them is as before."""

    def drop(number: int, agents: list[int]) -> None:
        if number == 9:
            stop_sshd(ground)
            start_sshd(ground)
        elif number % 2:
            ground.kill_sessions()
        else:
            ground.sh(f"kill -9 {' '.join(map(str, agents))}")

    drops.leave_nothing(profile, 5, 10, drop, lambda: Counter(ground.sh("ps -e -o comm=").split()))
