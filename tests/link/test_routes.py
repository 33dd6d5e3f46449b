"""The way to the host: ssh's own configuration, jumps, proxies, and each way it can fail by its own name."""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console import client as clients
from console.config.profile import Container, Profile, Server
from console.errors import ConfigError, HostKeyUnknown, LinkError
from console.ssh import route
from tests.link.conftest import profile_of
from tests.link.sshd import SshConfig, Sshd, free_port

MakeSshd = Callable[..., Sshd]

BRIDGE = """
import os, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        sock.sendall(data)
    os._exit(0)
threading.Thread(target=up, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
"""


def test_an_alias_of_an_included_file(sshd: Sshd, config: SshConfig, tmp_path: Path) -> None:
    config.host("ct", sshd)
    (tmp_path / "more").write_text(f"Host short\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {sshd.key}\n")
    config.write(before=f"Include {tmp_path}/mo*\n")
    clients.connect(profile_of("short", config)).close()


def test_the_profile_wins_over_the_configuration(sshd: Sshd, config: SshConfig) -> None:
    config.host("ct", sshd)
    config.write(before="Host ct\n  Port 1\n  User nobody\n  IdentityFile /none\n")
    profile = profile_of("ct", config, port=sshd.port, user=getpass.getuser(), key=str(sshd.key))
    clients.connect(profile).close()


def test_two_jumps_each_verified(make_sshd: MakeSshd, config: SshConfig) -> None:
    first, second, last = make_sshd("first"), make_sshd("second"), make_sshd("last")
    config.host("first", first)
    config.host("second", second, known=False)
    config.host("ct", last, ProxyJump="first,second")
    with pytest.raises(HostKeyUnknown, match=str(second.port)):
        clients.connect(profile_of("ct", config))
    config.host("second", second)
    told: list[str] = []
    client = clients.connect(profile_of("ct", config), on_progress=told.append)
    assert client.call("echo", value="x" * 100_000) == "x" * 100_000
    client.close()
    assert [part for part in told if part.startswith("connecting")] == [
        f"connecting to {getpass.getuser()}@127.0.0.1:{sshd.port}" for sshd in (first, second, last)
    ]


def test_a_jump_of_a_jump(make_sshd: MakeSshd, config: SshConfig) -> None:
    config.host("outer", make_sshd("outer"))
    config.host("inner", make_sshd("inner"), ProxyJump="outer")
    config.host("ct", make_sshd("last"), ProxyJump="inner")
    assert [hop.name for hop in route.route(profile_of("ct", config).container)] == ["outer", "inner", "ct"]
    clients.connect(profile_of("ct", config)).close()


@pytest.mark.parametrize("stranger", ["an alias", "a jump", "a second jump", "behind a jump"])
def test_the_remedy_for_an_unknown_key_makes_it_known(make_sshd: MakeSshd, config: SshConfig, stranger: str) -> None:
    """ssh, told so, files each key by the name under which it is looked for."""
    ct = {
        "an alias": {"HostKeyAlias": "the-box"},
        "behind a jump": {"ProxyJump": "one"},
        "a jump": {"ProxyJump": "one"},
    }
    config.host("one", make_sshd("one"), known=stranger != "a jump")
    config.host("two", make_sshd("two"), known=stranger != "a second jump")
    last = make_sshd("last")
    config.host("ct", last, known=stranger in ("a jump", "a second jump"), **ct.get(stranger, {"ProxyJump": "one,two"}))
    profile = profile_of("ct", config, port=last.port, user=getpass.getuser())
    with pytest.raises(HostKeyUnknown) as caught:
        clients.connect(profile)
    (by_hand,) = re.findall(r"`(ssh .*)`", caught.value.remedy)
    config.write(before="Host *\n  StrictHostKeyChecking accept-new\n  BatchMode yes\n")  # as the operator says yes
    subprocess.run(["sh", "-c", f"{by_hand} true"], check=False, capture_output=True, timeout=60)
    clients.connect(profile).close()


def test_jumps_in_a_circle(sshd: Sshd, config: SshConfig) -> None:
    config.host("a", sshd, ProxyJump="b")
    config.host("b", sshd, ProxyJump="a")
    with pytest.raises(ConfigError, match="jumps"):
        clients.connect(profile_of("a", config))


def test_a_jump_that_can_not_reach_the_host(make_sshd: MakeSshd, config: SshConfig) -> None:
    config.host("jump", make_sshd("jump"))
    closed = make_sshd("closed")
    closed.stop()
    config.host("ct", closed, ProxyJump="jump")
    with pytest.raises(LinkError, match="the jump host can't reach"):
        clients.connect(profile_of("ct", config))


def test_a_proxy_command_as_a_shell_takes_it(sshd: Sshd, config: SshConfig, tmp_path: Path) -> None:
    (tmp_path / "bridge.py").write_text(BRIDGE)
    config.host("ct", sshd, ProxyCommand=f"{sys.executable} '{tmp_path}/bridge.py' %h %p 2>/dev/null")
    client = clients.connect(profile_of("ct", config))
    assert client.call("echo", value=1) == 1
    client.close()


def test_a_proxy_command_that_fails_tells_why(sshd: Sshd, config: SshConfig) -> None:
    config.host("ct", sshd, ProxyCommand="sh -c 'echo no way through >&2; exit 1'")
    with pytest.raises(LinkError, match="no way through"):
        clients.connect(profile_of("ct", config))


def test_a_name_that_can_not_be_resolved(config: SshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(LinkError, match=r"the name ct\.lan can't be resolved: Name or service not known"):
        clients.connect(profile_of("ct.lan", config))


def test_nobody_listens(config: SshConfig) -> None:
    with pytest.raises(LinkError, match="connection refused"):
        clients.connect(profile_of("127.0.0.1", config, port=free_port()))


def test_nobody_answers(config: SshConfig) -> None:
    with socket.socket() as full, socket.socket() as one:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        one.connect(full.getsockname())  # the queue is full: further packets are dropped
        began = time.monotonic()
        with pytest.raises(LinkError, match="no answer within 4 s"):
            clients.connect(profile_of("127.0.0.1", config, port=full.getsockname()[1]))
        assert time.monotonic() - began < 30


def test_what_listens_is_no_sshd(config: SshConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        web.settimeout(5)
        profile = profile_of("127.0.0.1", config, port=web.getsockname()[1])

        def answer() -> None:
            sock, _ = web.accept()
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200)
            sock.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(LinkError, match="SSH handshake"):
            clients.connect(profile)
        thread.join()


def test_an_error_in_ssh_config_is_told_in_its_words(config: SshConfig) -> None:
    config.write(before="Hots ct\n")
    with pytest.raises(ConfigError, match="line 1"):
        clients.connect(profile_of("ct", config))


def test_without_an_ssh_program_the_profile_stands_alone(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/known_hosts").write_text(sshd.known_hosts_line)
    (tmp_path / ".ssh/config").write_text("Host *\n  Port 1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    container = Container(host="127.0.0.1", python=sys.executable, port=sshd.port, key=str(sshd.key))
    told: list[str] = []
    profile = Profile(container=container, server=Server(model_path="/m"))
    clients.connect(profile, on_progress=told.append).close()
    assert any("config is not read" in part for part in told)


HOSTILE = [
    "-oProxyCommand=touch {canary}",
    "$(touch {canary})",
    "`touch {canary}`",
    "x;touch {canary}",
    "x\ntouch {canary}",
    "x' 'touch {canary}",
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("key", ["host", "user", "key", "python", "jump"])
def test_no_value_becomes_a_command(sshd: Sshd, config: SshConfig, tmp_path: Path, key: str, value: str) -> None:
    canary = tmp_path / "canary"
    hostile = value.format(canary=canary)
    config.host("ct", sshd)
    container = {"host": "ct", "python": sys.executable, "ssh_config": str(config.path)}
    if key == "jump":
        config.write(before="Host ct\n  ProxyJump " + hostile.replace("\n", " ") + "\n")
    else:
        container[key] = hostile
    profile = Profile(container=Container(**container), server=Server(model_path="/m"))  # type: ignore[arg-type]
    try:
        clients.connect(profile).close()
    except (ConfigError, LinkError):
        assert key != "python"  # a Python that is none: another one is found
    assert not canary.exists()
