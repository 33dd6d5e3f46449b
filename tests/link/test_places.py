"""Hosts as they are: noisy shells, homes that can't be written, Pythons that are missing, one channel at a time."""

from __future__ import annotations

import errno
import hashlib
import inspect
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console import client as clients
from console.config.profile import Profile
from console.errors import LinkError
from console.ssh import bootstrap, dial
from console.ssh.connection import Connection
from console.ssh.route import route
from remote.agent import place
from remote.wire import folders
from tests.link.conftest import packed, profile_of
from tests.link.proxy import proxy
from tests.link.sshd import SshConfig, Sshd

MakeSshd = Callable[..., Sshd]


def where(profile: Profile) -> str:
    """Where the agent of `profile` runs, after a call that proves it does."""
    client = clients.connect(profile)
    try:
        return str(Path(client.call("path")[0]).parent)
    finally:
        client.close()


def home_cache(sshd: Sshd) -> Path:
    return sshd.home / ".cache/hsconsole"


def test_the_agent_is_pushed_once(profile: Profile, sshd: Sshd) -> None:
    told: list[str] = []
    for _ in range(2):
        clients.connect(profile, on_progress=told.append).close()
    assert sum(part.startswith("pushing") for part in told) == 1
    (agent,) = home_cache(sshd).iterdir()
    assert hashlib.sha256(agent.read_bytes()).hexdigest() == packed().digest
    assert stat.S_IMODE(agent.stat().st_mode) == 0o600
    assert stat.S_IMODE(home_cache(sshd).stat().st_mode) == 0o700


BANNERS = {
    "lines": "echo 'Welcome to ct129'; echo 'careful!' >&2",
    "no end of line": "printf Welcome",
    "binary": "printf '\\377\\000{\"id\": 1}\\n'",
    "long": "head -c 300000 /dev/zero | tr '\\0' x; echo",
}


@pytest.mark.parametrize("banner", BANNERS.values(), ids=BANNERS.keys())
def test_l05_a_shell_that_prints(profile: Profile, sshd: Sshd, banner: str) -> None:
    (sshd.home / ".bashrc").write_text(banner + "\n")
    if os.environ.get("SHELL", "/bin/bash").endswith("bash"):
        ran = Connection()
        ran.open(profile.container)
        assert len(ran.run("true").out) > 0, "the banner does print"
        ran.close()
    assert where(profile) == str(home_cache(sshd))


COMMANDS = {
    "both outputs": ("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 7", 7),
    "a child that keeps the pipe": ("sleep 40 & echo $!", 0),
    "killed": ("kill -9 $$", -1),
    "not found": ("no-such-command", 127),
}


@pytest.mark.parametrize(("command", "status"), COMMANDS.values(), ids=COMMANDS.keys())
def test_commands_end(profile: Profile, command: str, status: int) -> None:
    connection = Connection()
    connection.open(profile.container)
    began = time.monotonic()
    ran = connection.run(command, stdin=b"x" * 100_000)
    assert ran.status == status
    assert time.monotonic() - began < 30
    assert len(ran.out) <= 1 << 20
    with pytest.raises(LinkError, match=r"no end within 0\.3 s|no end within 0 s"):
        connection.run("sleep 5", timeout=0.3)
    connection.close()
    with pytest.raises(LinkError):
        connection.run("true")


@pytest.mark.parametrize("subsystem", ["internal-sftp", "/bin/false", "/none"])
def test_sftp_as_it_comes(make_sshd: MakeSshd, config: SshConfig, subsystem: str) -> None:
    sshd = make_sshd(Subsystem=f"sftp {subsystem}")
    config.host("ct", sshd)
    assert where(profile_of("ct", config)) == str(home_cache(sshd))


def test_l06_home_not_writable(profile: Profile, sshd: Sshd, tmp_path: Path) -> None:
    shutil.rmtree(sshd.home)
    sshd.home.write_text("a file")
    assert where(profile) == str(tmp_path / "second")


def test_l06_no_place_at_all_lists_each_with_its_reason(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    places = [str(tmp_path / name) for name in ("file", "file/x", "open", "link")]
    monkeypatch.setattr(bootstrap, "PLACES", (*places, "/proc/hsconsole"))
    with pytest.raises(LinkError) as caught:
        clients.connect(profile)
    for part in (
        "file: it is not a folder",
        "file/x: ",
        "open: others can write",
        "link: it is not a folder",
        "/proc/",
    ):
        assert part in caught.value.what


def test_l06_disk_full_while_pushing_goes_on_to_the_next_place(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = bootstrap._push_by_sftp
    (tmp_path / "full").mkdir(mode=0o700)
    monkeypatch.setattr(bootstrap, "PLACES", (str(tmp_path / "full"), str(tmp_path / "second")))
    monkeypatch.setattr(bootstrap, "RECEIVE", 'case "$1" in */full/*) echo "No space left on device" >&2; exit 1; esac')
    monkeypatch.setattr(bootstrap, "_push_by_sftp", lambda c, a, aside, p: "/full/" not in p and push(c, a, aside, p))
    assert where(profile) == str(tmp_path / "second")


def test_l06_disk_full_is_seen_before_pushing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left|File too large"):
        place.examine(str(tmp_path / "place"), "0" * 64, 1 << 60)
    assert list((tmp_path / "place").iterdir()) == []


def test_l07_the_python_of_the_profile_does_not_exist(sshd: Sshd, config: SshConfig) -> None:
    config.host("ct", sshd)
    client = clients.connect(profile_of("ct", config, python="/opt/none/bin/python"))
    (note,) = client.hello.notes
    client.close()
    assert "/opt/none/bin/python does not exist" in note
    assert "without SGLang's environment" in note


@pytest.mark.parametrize(
    ("script", "why"), [("exit 1", "is no Python 3.9 or newer"), (None, "can't be run")], ids=["old", "not executable"]
)
def test_l07_the_python_of_the_profile_is_none(
    sshd: Sshd, config: SshConfig, tmp_path: Path, script: str | None, why: str
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755 if script else 0o644)
    config.host("ct", sshd)
    client = clients.connect(profile_of("ct", config, python=str(fake)))
    assert why in client.hello.notes[0]
    client.close()


def test_no_python_at_all(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "FIND", "echo sh: python3: not found >&2; exit 3")
    with pytest.raises(LinkError, match=r"no usable Python 3\.9.*not found"):
        clients.connect(profile)


def test_l08_one_channel_at_a_time(make_sshd: MakeSshd, config: SshConfig) -> None:
    sshd = make_sshd(MaxSessions="1")
    config.host("ct", sshd)
    for _ in range(2):
        assert where(profile_of("ct", config)) == str(home_cache(sshd))


def test_a_python_with_an_odd_path(sshd: Sshd, config: SshConfig, tmp_path: Path) -> None:
    odd = tmp_path / "we \"ird' $(x);& \\"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(odd)], check=True)
    config.host("ct", sshd)
    client = clients.connect(profile_of("ct", config, python=f"{odd}/bin/python"))
    assert client.hello.notes == ()
    assert client.hello.python == f"{odd}/bin/python"
    client.close()


def test_the_environment_of_the_python_counts(make_sshd: MakeSshd, config: SshConfig) -> None:
    sshd = make_sshd(SetEnv="PYTHONPATH=/somewhere")
    config.host("ct", sshd)
    client = clients.connect(profile_of("ct", config))
    assert client.call("path")[2] == "/somewhere"
    client.close()


def test_a_damaged_agent_is_replaced(profile: Profile, sshd: Sshd) -> None:
    where(profile)
    (agent,) = home_cache(sshd).iterdir()
    agent.write_bytes(agent.read_bytes()[:-10])
    where(profile)
    assert hashlib.sha256(agent.read_bytes()).hexdigest() == packed().digest


def test_a_planted_link_is_replaced_not_followed(profile: Profile, sshd: Sshd, tmp_path: Path) -> None:
    home_cache(sshd).mkdir(parents=True, mode=0o700)
    (tmp_path / "evil").write_bytes(packed().data)
    (home_cache(sshd) / packed().name).symlink_to(tmp_path / "evil")
    where(profile)
    assert not (home_cache(sshd) / packed().name).is_symlink()


def test_old_agents_go_others_files_stay(profile: Profile, sshd: Sshd) -> None:
    home_cache(sshd).mkdir(parents=True, mode=0o700)
    for number in range(6):
        old = home_cache(sshd) / f"agent-{number:064x}.pyz"
        old.write_text("")
        os.utime(old, (time.time() - 1000 * number,) * 2)
    (home_cache(sshd) / ".agent-1.part").write_text("")
    os.utime(home_cache(sshd) / ".agent-1.part", (0, 0))
    (home_cache(sshd) / "notes.txt").write_text("")
    where(profile)
    left = {path.name for path in home_cache(sshd).iterdir()}
    assert left == {packed().name, "notes.txt", *(f"agent-{number:064x}.pyz" for number in range(3))}


def test_the_cache_folder_of_the_session_counts(make_sshd: MakeSshd, config: SshConfig, tmp_path: Path) -> None:
    sshd = make_sshd(SetEnv=f"XDG_CACHE_HOME={tmp_path / 'cache'} HOME={tmp_path / 'ct' / 'home'}")
    config.host("ct", sshd)
    assert where(profile_of("ct", config)) == str(tmp_path / "cache/hsconsole")
    assert not home_cache(sshd).exists()


def test_two_consoles_may_tidy_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"agent-{number:064x}.pyz" for number in range(6)]
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setattr(os, "listdir", lambda _: [*names, f"agent-{'f' * 64}.pyz", ".agent-1.part"])  # both gone by now
    assert not place.examine(str(tmp_path), "e" * 64, 1)
    assert len(list(os.scandir(tmp_path))) == place.KEPT


@pytest.mark.parametrize("name", ["make", "replaceable"])
def test_what_the_finder_has_of_its_own_is_what_the_agent_has(name: str) -> None:
    assert inspect.getsource(getattr(place, name)) == inspect.getsource(getattr(folders, name))


@pytest.mark.parametrize(("named", "folder"), [("/c", "/c"), ("", "~/.cache"), ("relative", "~/.cache")])
def test_a_cache_folder_is_absolute(monkeypatch: pytest.MonkeyPatch, named: str, folder: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert place.cache() == folder


def test_places_behind_the_one_that_has_it_stay_untouched(profile: Profile, tmp_path: Path) -> None:
    where(profile)
    shutil.rmtree(tmp_path / "second")
    where(profile)
    assert not (tmp_path / "second").exists()


def test_a_command_that_reads_nothing_has_its_words_heard(profile: Profile) -> None:
    connection = Connection()
    connection.open(profile.container)
    for _ in range(3):
        ran = connection.run("echo No space left >&2; exit 4", stdin=b"x" * 8_000_000)
        assert (ran.status, ran.err) == (4, b"No space left\n")
    connection.close()


def test_a_line_that_falls_silent_before_an_answer_is_not_waited_for_for_ever(
    sshd: Sshd, config: SshConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.host("ct", sshd)
    with proxy(sshd.port) as line:
        container = profile_of("ct", config, port=line.port).container
        config.known_hosts.write_text(sshd.known_hosts_line.replace(str(sshd.port), str(line.port)))
        connection = Connection()
        connection.open(container)
        channel = connection.channel()
        line.silent.set()
        monkeypatch.setattr(connection, "channel", lambda: channel)
        began = time.monotonic()
        with pytest.raises(LinkError, match=r"no end within 1 s"):
            connection.run("true", timeout=1.0)
        assert time.monotonic() - began < 30
        connection.close()


def test_a_machine_without_ipv6_takes_the_next_address(monkeypatch: pytest.MonkeyPatch, profile: Profile) -> None:
    made = socket.socket

    def without_ipv6(family: int = -1, *more: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return made(family, *more)

    (hop,) = route(profile.container)
    addresses = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", hop.port, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", hop.port)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    monkeypatch.setattr(socket, "socket", without_ipv6)
    dial.tcp(hop, threading.Event()).close()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses[:1])
    with pytest.raises(LinkError, match="address of that kind"):
        dial.tcp(hop, threading.Event())
