"""Nobody but the operator can read or change what is written, whatever the umask; no link leads a write elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs
import pytest

from console import audit
from console.cli import crash
from console.config import write
from console.config.profile import Container, Profile, Server
from console.ssh import bootstrap, known_hosts
from console.ssh.pack import pack
from remote import processes, statedir
from remote.agent import place
from remote.patch.store import Record as PatchRecord
from remote.patch.store import Store
from remote.server import exits, record, spawn
from remote.wire import folders, journal
from remote.wire.audit import Entry, now
from remote.wire.errors import Refused

PROFILE = Profile(name="kimi", container=Container(host="ct", python="/p"), server=Server(model_path="/m"))
RECORD = record.Record(8000, 1, 2, "boot", ("python",), ("A",), "/log", 0.0, "ann")


@pytest.fixture(autouse=True)
def everything_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """All that is written lands here, under the most generous umask."""
    for variable, folder in {
        "HSCONSOLE_CONFIG_DIR": "config",
        "HSCONSOLE_STATE_DIR": "laptop",
        "XDG_STATE_HOME": "state",
        "XDG_CACHE_HOME": "cache",
        "HOME": "home",
    }.items():
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.setattr(platformdirs, "user_log_dir", lambda *_: str(tmp_path / "logs"))
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def _lock(folder: Path) -> None:
    with record.lock(8000, "is starting"):
        pass


def _log(folder: Path) -> None:
    path = record.rotate_log(8000)
    spawn.detached([sys.executable, "-c", "import time; time.sleep(0.3)"], {}, path, exits.path(8000))


def _patch(folder: Path) -> None:
    store = Store(statedir.state_dir())
    with store.locked("/model.py"):
        store.keep(b"original")
        store.remember(PatchRecord("/model.py", "a", "b", "c", "d", 0.0))


def _agent(folder: Path) -> None:
    home = folder / "cache" / "hsconsole"
    assert place.examine(str(home), "d" * 64, 10) is False
    line = bootstrap._sh(bootstrap.RECEIVE, f"{home}/.agent-x.part", f"{home}/{pack().name}")
    subprocess.run(["sh", "-c", line], input=b"data", check=True)


WRITERS: dict[str, Callable[[Path], object]] = {
    "profile": lambda folder: write.write(PROFILE),
    "known_hosts": lambda folder: known_hosts.store(
        folder / "home" / ".ssh" / "known_hosts", "ct", "ssh-ed25519", b"key", hashed=False
    ),
    "audit, laptop": lambda folder: journal.append(str(audit.path_of("kimi")), Entry("begin", now())),
    "audit, container": lambda folder: journal.append(f"{statedir.state_dir()}/audit.jsonl", Entry("begin", now())),
    "crash": lambda folder: crash.crash(ValueError("x")),
    "server record": lambda folder: record.write(RECORD),
    "server lock": _lock,
    "server log": _log,
    "patch records": _patch,
    "agent": _agent,
}


@pytest.mark.parametrize("what", WRITERS)
def test_nobody_else_can_read_what_is_written(what: str, everything_below: Path) -> None:
    WRITERS[what](everything_below)
    files = [path for path in everything_below.rglob("*") if path.is_file()]
    assert files
    for path in files:
        others = stat.S_IMODE(path.stat().st_mode) & 0o077
        below = [folder for folder in path.parents if everything_below in folder.parents]
        closed = any(folder.stat().st_mode & 0o077 == 0 for folder in below)
        assert not others or closed, f"{path} {path.stat().st_mode:o}"
        assert not [folder for folder in below if folder.stat().st_mode & 0o022], "others could replace it"


@pytest.mark.parametrize("what", WRITERS)
def test_files_are_private_themselves(what: str, everything_below: Path) -> None:
    WRITERS[what](everything_below)
    for path in everything_below.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize("umask", [0, 0o022, 0o277])
def test_records_of_patches_are_private_and_usable_whatever_the_umask(umask: int, everything_below: Path) -> None:
    os.umask(umask)
    _patch(everything_below)
    state = Path(statedir.state_dir())
    for folder in (state.parent, state, state / "originals", state / "patches"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    for path in (state / name for name in ("originals", "patches")):
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


@pytest.mark.parametrize("fault", ["group writes", "others write", "not ours"])
def test_a_state_folder_that_others_can_write_to_is_not_used(
    fault: str, everything_below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = everything_below / "state" / "hsconsole"
    folder.mkdir(parents=True, mode=0o700)
    if fault == "not ours":
        real = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: real + 1)
        with pytest.raises(statedir.StateDirError, match="belongs to user"):
            statedir.state_dir({"XDG_STATE_HOME": str(folder.parent), "HOME": str(folder.parent)})
        return
    folder.chmod(0o770 if fault == "group writes" else 0o707)
    assert statedir.state_dir() != str(folder)


@pytest.mark.parametrize("fault", ["a link", "writable", "another's"])
def test_a_place_for_the_agent_that_somebody_prepared_is_refused(
    fault: str, everything_below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /dev/shm, /tmp and /var/tmp, where anybody may make a folder of that name first."""
    folder, elsewhere = everything_below / "hsconsole-1000", everything_below / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if fault == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir(mode=0o777 if fault == "writable" else 0o700)
    if fault == "another's":
        real = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: real + 1)
    with pytest.raises(OSError, match=r"link|belongs to|others can write"):
        place.examine(str(folder), "d" * 64, 10)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "fine"), [(0o777, False), (0o707, False), (0o1777, True), (0o775, True), (0o755, True)]
)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_place_that_others_can_replace_is_not_used(mode: int, fine: bool, depth: int, everything_below: Path) -> None:
    """As in a /dev/shm without its sticky bit; 775 is a group of one, as many systems make it."""
    shared = everything_below / "shared"
    folder = shared.joinpath("between", "hsconsole-7") if depth == 2 else shared / "hsconsole-7"
    folder.parent.mkdir(parents=True, mode=0o755)
    shared.chmod(mode)
    found = statedir.state_dir({"XDG_STATE_HOME": str(folder), "HOME": str(everything_below / "home")})
    assert (found == str(folder / "hsconsole")) is fine
    with contextlib.nullcontext() if fine else pytest.raises(OSError, match="sticky"):
        assert place.examine(str(folder / "agent"), "d" * 64, 10) is False


def test_an_agent_that_was_changed_there_is_pushed_anew(everything_below: Path) -> None:
    folder = everything_below / "cache" / "hsconsole"
    folders.make(str(folder))
    (folder / f"agent-{'d' * 64}.pyz").write_bytes(b"something else")
    assert place.examine(str(folder), "d" * 64, 10) is False
    real = everything_below / "right"
    real.write_bytes(b"x")
    (folder / f"agent-{'e' * 64}.pyz").symlink_to(real)
    assert not place.has(str(folder / f"agent-{'e' * 64}.pyz"), "e" * 64)


def test_a_record_replaces_a_link_and_does_not_follow_it(everything_below: Path) -> None:
    victim = everything_below / "victim"
    victim.write_text("precious")
    path = Path(statedir.state_dir()) / "server-8000.json"
    path.symlink_to(victim)
    record.write(RECORD)
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    assert record.read(8000) == RECORD


def test_a_forged_record_is_no_more_than_a_claim(everything_below: Path) -> None:
    """Whatever stands in it, only a process with that pid and start time is taken for ours."""
    path = Path(statedir.state_dir()) / "server-8000.json"
    for text in ("", "[]", "\x00\xff", '{"port": "x"}', '{"port": 8000, "pid": 1}', "[" * 100_000):
        path.write_text(text)
        assert record.read(8000) is None
    record.write(dataclasses.replace(RECORD, pid=os.getpid(), start_ticks=1))
    found = record.read(8000)
    assert found is not None
    assert processes.alive(found.identity) is None


def test_two_who_start_at_once(everything_below: Path) -> None:
    with record.lock(8000, "is starting"), pytest.raises(Refused, match="is starting"), record.lock(8000, "stops"):
        pass
