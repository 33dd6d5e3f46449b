"""Who is at the other end: known, unknown, changed, revoked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from console import client as clients
from console.config.profile import Profile
from console.errors import ConfigError, HostKeyChanged, HostKeyUnknown
from console.ssh import known_hosts
from tests.link.conftest import profile_of
from tests.link.sshd import SshConfig, Sshd, keygen


def shown(key: Path) -> str:
    """The fingerprint as ssh-keygen has it."""
    done = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True)
    return done.stdout.split()[1]


@pytest.fixture
def stranger(sshd: Sshd, config: SshConfig) -> Profile:
    config.host("ct", sshd, known=False)
    return profile_of("ct", config)


def test_l02_nobody_to_ask_is_a_refusal_with_the_fingerprint(stranger: Profile, sshd: Sshd, config: SshConfig) -> None:
    with pytest.raises(HostKeyUnknown) as caught:
        clients.connect(stranger)
    assert shown(sshd.host_key) in caught.value.what
    assert f"[127.0.0.1]:{sshd.port}" in caught.value.what
    assert not config.known_hosts.exists()


@pytest.mark.parametrize("hashed", ["no", "yes"])
def test_l02_asked_once_and_stored(sshd: Sshd, config: SshConfig, hashed: str) -> None:
    config.host("ct", sshd, known=False, HashKnownHosts=hashed)
    config.known_hosts.write_text("other ssh-ed25519 AAAA")  # without an end of line
    asked: list[tuple[str, str, str]] = []

    def ask(host: str, kind: str, fingerprint: str) -> bool:
        asked.append((host, kind, fingerprint))
        return True

    for _ in range(2):
        clients.connect(profile_of("ct", config), ask_host_key=ask).close()
    assert asked == [(f"[127.0.0.1]:{sshd.port}", "ssh-ed25519", shown(sshd.host_key))]
    lines = config.known_hosts.read_text().splitlines()
    assert lines[0] == "other ssh-ed25519 AAAA"
    assert lines[1].startswith("|1|" if hashed == "yes" else "[127.0.0.1]:")
    found = subprocess.run(
        ["ssh-keygen", "-F", f"[127.0.0.1]:{sshd.port}", "-f", str(config.known_hosts)],
        capture_output=True,
        check=False,
    )
    assert found.returncode == 0  # OpenSSH reads what was stored


def test_l02_a_no_stores_nothing(stranger: Profile, config: SshConfig) -> None:
    with pytest.raises(HostKeyUnknown):
        clients.connect(stranger, ask_host_key=lambda *_: False)
    assert not config.known_hosts.exists()


def test_l01_a_changed_key_stops_hard(profile: Profile, sshd: Sshd, config: SshConfig) -> None:
    before = config.known_hosts.read_bytes()
    old = shown(sshd.host_key)
    sshd.stop()
    keygen(sshd.host_key)
    sshd.start()
    with pytest.raises(HostKeyChanged) as caught:
        clients.connect(profile, ask_host_key=lambda *_: pytest.fail("it must not ask"))
    for part in (f"{config.known_hosts}:1", old, shown(sshd.host_key)):
        assert part in caught.value.what
    assert "ssh-keygen -f" in caught.value.remedy
    assert config.known_hosts.read_bytes() == before
    assert "Accepted publickey" not in sshd.log()


def test_a_revoked_key_stops_hard(stranger: Profile, sshd: Sshd, config: SshConfig) -> None:
    config.known_hosts.write_text(f"{sshd.known_hosts_line}@revoked * {sshd.known_hosts_line.split(' ', 1)[1]}")
    with pytest.raises(HostKeyChanged, match="revokes"):
        clients.connect(stranger, ask_host_key=lambda *_: True)


def test_the_host_is_asked_for_the_key_that_is_on_file(stranger: Profile, sshd: Sshd, config: SshConfig) -> None:
    sshd.stop()
    second = keygen(sshd.folder / "host_rsa", kind="rsa")
    sshd.start(HostKey=f"{sshd.host_key}\nHostKey {second}")
    kind, key, _ = Path(f"{second}.pub").read_text().split()
    config.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {kind} {key}\n")
    clients.connect(stranger).close()


def test_a_host_known_without_its_port_is_known(stranger: Profile, sshd: Sshd, config: SshConfig) -> None:
    config.known_hosts.write_text(sshd.known_hosts_line.replace(f"[127.0.0.1]:{sshd.port}", "127.0.0.1"))
    clients.connect(stranger).close()


KEY, OTHER = b"\0\0\0\x0bssh-ed25519one", b"\0\0\0\x0bssh-ed25519two"
ONE, TWO = "AAAAC3NzaC1lZDI1NTE5b25l", "AAAAC3NzaC1lZDI1NTE5dHdv"
MATCHES = {
    "plain": ("ct", f"ct ssh-ed25519 {ONE}", True),
    "case": ("CT", f"ct ssh-ed25519 {ONE}", True),
    "list": ("ct", f"a,ct,10.0.0.1 ssh-ed25519 {ONE} comment", True),
    "wild": ("ct.lan", f"*.lan ssh-ed25519 {ONE}", True),
    "one letter": ("ct1", f"ct? ssh-ed25519 {ONE}", True),
    "negated": ("bad.lan", f"!bad.lan,*.lan ssh-ed25519 {ONE}", False),
    "port": ("[ct]:2222", f"[ct]:2222 ssh-ed25519 {ONE}", True),
    "wild port": ("[ct]:2222", f"[ct]:* ssh-ed25519 {ONE}", True),
    "brackets are no class": ("c", f"[ct] ssh-ed25519 {ONE}", False),
    "another host": ("ct2", f"ct ssh-ed25519 {ONE}", False),
    "authority": ("ct", f"@cert-authority * ssh-ed25519 {ONE}", False),
    "comment": ("ct", f"# ct ssh-ed25519 {ONE}", False),
    "garbage": ("ct", "ct ssh-ed25519 !!!\n\n@revoked\n|1|x|y ssh-ed25519 AAAA\n\xff", False),
    "a salt that is none": (
        "ct",
        f"|1|\xfc\xff|x= ssh-ed25519 {TWO}\n|1| ssh-ed25519 {TWO}\n|1|x ssh-ed25519 {TWO}",
        False,
    ),
    "no line break of ssh's": ("ct", f"a ssh-ed25519 {TWO} \x0c\x85ct ssh-ed25519 {ONE}", False),
    "without its port": ("[ct]:2222", f"ct ssh-ed25519 {ONE}", True),
    "another without its port": ("[ct]:2222", f"ct ssh-ed25519 {TWO}", False),
    "second line": ("ct", f"ct ssh-ed25519 {TWO}\nct ssh-ed25519 {ONE}", True),
}


@pytest.mark.parametrize(("name", "text", "known"), MATCHES.values(), ids=MATCHES.keys())
def test_lines(tmp_path: Path, name: str, text: str, known: bool) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(text, encoding="latin-1")
    assert known_hosts.check(name, "ssh-ed25519", KEY, (tmp_path / "none", file)) is known


@pytest.mark.parametrize("name", ["ct", "[ct]:2222"])
@pytest.mark.parametrize("after", ["", f"ct ssh-ed25519 {ONE}", f"[ct]:2222 ssh-ed25519 {ONE}", f"* ssh-ed25519 {ONE}"])
def test_a_revoked_key_is_refused_on_every_port(tmp_path: Path, name: str, after: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"@revoked ct ssh-ed25519 {ONE}\n{after}\n")
    with pytest.raises(HostKeyChanged, match="known_hosts:1, which that line revokes"):
        known_hosts.check(name, "ssh-ed25519", KEY, (file,))


def test_another_kind_of_key_is_a_change_too(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"\nct ssh-ed25519 {ONE}\n")
    with pytest.raises(HostKeyChanged, match="known_hosts:2"):
        known_hosts.check("ct", "ecdsa-sha2-nistp256", OTHER, (file,))


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_would_be_read_for_ever_is_no_known_hosts(
    profile: Profile, config: SshConfig, tmp_path: Path, kind: str
) -> None:
    place = Path("/dev/full")
    if kind == "pipe":
        place = tmp_path / "pipe"
        os.mkfifo(place)
    config.known_hosts = place
    config.write()
    with pytest.raises(ConfigError, match=f"{place} can't hold host keys"):
        clients.connect(profile)


def test_no_known_hosts_at_all(profile: Profile, config: SshConfig) -> None:
    config.known_hosts = Path(os.devnull)
    config.write()
    with pytest.raises(HostKeyUnknown):
        clients.connect(profile)
    clients.connect(profile, ask_host_key=lambda *_: True).close()
