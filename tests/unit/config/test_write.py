"""A written profile is read back the same, is for its owner's eyes and never replaces another unasked."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from console.config import load, write
from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import ConfigError

PLAIN = Profile(
    name="kimi", container=Container(host="ct129", python="/opt/py"), server=Server(model_path="/models/kimi")
)
FULL = Profile(
    name="full",
    container=Container(host="h", python="/p y/\"q\"/'s'", user="root", port=2222, key="~/.ssh/k", ssh_config="/c"),
    proxmox=Proxmox(host="pve1", vmid=129),
    server=Server(
        model_path="/models/模型 \\ back 😀",
        port=8001,
        tp=8,
        flags=("--trust-remote-code", "--mem-fraction-static", "0.8", 'a"b\n\t\x7f'),
        env={"HF_TOKEN": "s3cret \\ # not a comment", "A": ""},
    ),
    dump=Dump(folder="/dev/shm/x", eagle_layer_ids=(2, 30, 58)),
    read_only=True,
    stood_in=("pct",),
)


@pytest.mark.parametrize("profile", [PLAIN, FULL], ids=lambda p: p.name)
def test_round_trip(profiles: Path, profile: Profile) -> None:
    path = write.write(profile)
    assert load.load(profile.name) == profile
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in profiles.iterdir()] == [path.name]


def test_it_is_commented() -> None:
    assert 'host = "ct129"  # a name from ~/.ssh/config, or an address' in write.render(PLAIN)


def test_another_profile_is_not_replaced_unasked(profiles: Path) -> None:
    path = write.write(PLAIN)
    before = path.read_bytes()
    changed = msgspec.structs.replace(PLAIN, read_only=True)
    with pytest.raises(ConfigError, match="exists already"):
        write.write(changed)
    assert path.read_bytes() == before
    write.write(changed, overwrite=True)
    assert load.load("kimi").read_only


def test_what_could_not_be_read_is_not_written(profiles: Path) -> None:
    with pytest.raises(ConfigError, match=r"dump\.folder"):
        write.write(msgspec.structs.replace(PLAIN, dump=Dump(folder="here")))
    assert list(profiles.iterdir()) == []


def test_a_folder_that_can_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="can't be written"):
        write.write(PLAIN)
