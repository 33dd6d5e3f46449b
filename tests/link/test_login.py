"""Keys: the right one, the wrong one, the locked one, the agent's."""

from __future__ import annotations

import base64
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from console import client as clients
from console.config.profile import Profile
from console.errors import AuthenticationFailed, ConfigError
from tests.link.conftest import profile_of
from tests.link.sshd import SshConfig, Sshd, keygen


@pytest.fixture
def ssh_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        os.sched_yield()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    yield path
    process.terminate()
    process.wait()


def add(key: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, stdin=subprocess.DEVNULL)


def with_key(profile: Profile, key: Path) -> Profile:
    return msgspec.structs.replace(profile, container=msgspec.structs.replace(profile.container, key=str(key)))


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_every_kind_of_key(profile: Profile, sshd: Sshd, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / "mine", kind=kind)
    sshd.authorize(key)
    clients.connect(with_key(profile, key)).close()


def test_a_wrong_key_is_named(profile: Profile, tmp_path: Path) -> None:
    key = keygen(tmp_path / "wrong")
    with pytest.raises(AuthenticationFailed) as caught:
        clients.connect(with_key(profile, key))
    assert str(key) in caught.value.what
    assert "publickey" in caught.value.what
    assert "ssh-copy-id" in caught.value.remedy


def test_a_user_that_does_not_exist(profile: Profile) -> None:
    container = msgspec.structs.replace(profile.container, user="nobody-of-that-name")
    with pytest.raises(AuthenticationFailed, match="nobody-of-that-name@"):
        clients.connect(msgspec.structs.replace(profile, container=container))


def test_a_key_that_is_not_there(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        clients.connect(with_key(profile, tmp_path / "none"))


def test_a_device_is_no_key(profile: Profile) -> None:
    with pytest.raises(AuthenticationFailed, match=r"/dev/zero \(it is no plain file\)"):
        clients.connect(with_key(profile, Path("/dev/zero")))


def test_a_file_that_is_no_key(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("milk, eggs")
    with pytest.raises(AuthenticationFailed, match="notes"):
        clients.connect(with_key(profile, tmp_path / "notes"))


def of_no_use_alone(path: Path, kind: bytes) -> Path:
    """A private key as OpenSSH writes it, whose signatures come from elsewhere (a FIDO token) or which is of no use."""

    def text(data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + data

    public = text(kind) + text(b"k" * 32) + text(b"ssh:")
    private = struct.pack(">II", 7, 7) + public + b"\1" + text(b"handle") + text(b"") + text(b"comment")
    private += bytes(range(1, 1 + -len(private) % 8))
    whole = text(b"none") * 2 + text(b"") + struct.pack(">I", 1) + text(public) + text(private)
    body = base64.encodebytes(b"openssh-key-v1\0" + whole).decode()
    path.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n")
    return path


@pytest.mark.parametrize("kind", [b"sk-ssh-ed25519@openssh.com", b"ssh-xmss@openssh.com", b"ssh-dss"])
def test_a_key_of_a_kind_that_is_not_known_keeps_no_other_from_being_tried(
    sshd: Sshd, config: SshConfig, tmp_path: Path, kind: bytes
) -> None:
    key = of_no_use_alone(tmp_path / "token", kind)
    config.host("ct", sshd)
    config.write(before=f"Host ct\n  IdentityFile {key}\n")
    clients.connect(profile_of("ct", config)).close()
    with pytest.raises(AuthenticationFailed, match="token"):
        clients.connect(profile_of("ct", config, key=str(key)))


def test_a_locked_key_without_an_agent_says_ssh_add(profile: Profile, sshd: Sshd, tmp_path: Path) -> None:
    key = keygen(tmp_path / "locked", passphrase="secret")
    sshd.authorize(key)
    with pytest.raises(AuthenticationFailed) as caught:
        clients.connect(with_key(profile, key))
    assert "passphrase" in caught.value.what
    assert caught.value.remedy == f"ssh-add {key}"


@pytest.mark.parametrize("public_part", [True, False])
def test_a_locked_key_that_the_agent_holds(
    sshd: Sshd, config: SshConfig, tmp_path: Path, ssh_agent: Path, public_part: bool
) -> None:
    key = keygen(tmp_path / "locked")
    sshd.authorize(key)
    add(key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key)], check=True, stdout=subprocess.DEVNULL)
    if not public_part:
        Path(f"{key}.pub").unlink()
    config.host("ct", sshd, IdentityAgent=str(ssh_agent), IdentityFile=str(key))
    clients.connect(profile_of("ct", config)).close()


def test_the_named_key_comes_first_among_many(sshd: Sshd, config: SshConfig, tmp_path: Path, ssh_agent: Path) -> None:
    for number in range(8):
        add(keygen(tmp_path / f"key{number}"))
    config.host("ct", sshd, IdentityAgent="SSH_AUTH_SOCK", IdentitiesOnly="no")
    with pytest.raises(AuthenticationFailed, match="closed the line after"):
        clients.connect(profile_of("ct", config))
    clients.connect(profile_of("ct", config, key=str(sshd.key))).close()


def test_with_one_key_named_an_agents_others_are_not_tried(
    profile: Profile, sshd: Sshd, config: SshConfig, tmp_path: Path, ssh_agent: Path
) -> None:
    """Not even where the public part is not beside it: each try counts against the host's limit."""
    for number in range(8):
        add(keygen(tmp_path / f"key{number}"))
    Path(f"{sshd.key}.pub").unlink()
    config.host("bare", sshd, IdentityAgent="SSH_AUTH_SOCK", IdentitiesOnly="no")
    clients.connect(profile_of("bare", config, key=str(sshd.key))).close()


def test_an_agent_that_is_gone_is_no_error(profile: Profile, config: SshConfig, sshd: Sshd, tmp_path: Path) -> None:
    config.host("other", sshd, IdentityAgent=str(tmp_path / "gone"))
    clients.connect(profile_of("other", config)).close()
