"""Links, pipes, sockets and devices where files and folders of ours are wanted, in places where others can write.

Nothing waits for them, nothing is written or removed through them, and what can go on goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from remote import survey
from remote.canary.ranks import Ranks
from remote.dumper import files, loaded
from remote.dumper.selection import Selection
from remote.dumps import claims, detail, watch
from remote.server import log, model
from remote.wire.dumps import DumpState
from tests.dumpfolder import dump
from tests.unit.dumper.making import desk, part, write
from tests.unit.dumps.test_request import target

PATIENCE = 20  # seconds; each takes some milliseconds
OLD = (1000, 1000)
Trap = Callable[[Path, Path], None]


def _device(place: Path, _: Path) -> None:
    try:
        os.mknod(place, 0o20666, os.makedev(1, 5))  # /dev/zero: never ends
    except PermissionError:
        pytest.skip("only root can make devices")


def _socket(place: Path, _: Path) -> None:
    with contextlib.chdir(place.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(place.name)


TRAPS: dict[str, Trap] = {
    "pipe": lambda place, _: os.mkfifo(place),
    "socket": _socket,
    "device": _device,
    "link to a file": lambda place, victim: place.symlink_to(victim / "7.json"),
    "link to a folder": lambda place, victim: place.symlink_to(victim),
    "link to a pipe": lambda place, victim: place.symlink_to(victim / "pipe"),
    "link to nothing": lambda place, victim: place.symlink_to(victim / "new"),
    "link to itself": lambda place, _: place.symlink_to(place),
    "folder": lambda place, _: place.mkdir(),
}


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it waits for a trap")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody's, with names that hsconsole gives to files of its own."""
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("7.json", "7.txt"):
        (folder / name).write_text("precious")
    dump(folder, 3)
    os.utime(folder / "req_3", OLD)
    os.mkfifo(folder / "pipe")
    before = {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}
    yield folder
    assert {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")} == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "dumps"
    place.mkdir()
    return place


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", [".loaded", ".stats", ".loaded/7.json", ".stats/7.json"])
def test_claims_and_statistics(trap: str, name: str, folder: Path, victim: Path) -> None:
    """Of process 7, which the dumper writes and takes for dead, and which the console reads."""
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    TRAPS[trap](place, victim)
    loaded.forget_dead(str(folder))
    files.replace_json(str(folder / ".loaded" / "7.json"), {"pid": 7})
    files.replace_json(str(folder / ".stats" / "7.json"), {"pid": 7})
    assert list(claims.live(str(folder), 1000)) == []
    assert watch.newest(str(folder), 10).problem == ""


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("kind", [".loaded", ".stats"])
def test_what_lies_where_a_file_is_written_aside(trap: str, kind: str, folder: Path, victim: Path) -> None:
    (folder / kind).mkdir()
    TRAPS[trap](folder / kind / "7.json.new", victim)
    path = folder / kind / "7.json"
    files.replace_json(str(path), {"pid": 7})
    if trap != "folder":
        assert path.read_text() == '{"pid": 7}'
        assert not path.is_symlink()


@pytest.mark.parametrize("trap", TRAPS)
def test_the_names_of_a_canary(trap: str, folder: Path, victim: Path) -> None:
    TRAPS[trap](folder / ".canary", victim)
    TRAPS[trap](folder / f".canary.{os.getpid()}", victim)
    selection = Selection(str(folder))
    selection.any()
    writing = part()
    assert not selection.takes(type("Segment", (), {"rid": "precious"})(), writing)
    ranks = Ranks(target(1, folder, tp=2), "mine", "0" * 64)
    ranks.name()
    if trap != "folder":
        assert "mine" in (folder / ".canary").read_text()
    ranks.withdraw()


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", [".ranks", ".ranks/1", ".ranks/1/req_0"])
def test_the_copies_of_a_canary(trap: str, name: str, folder: Path, victim: Path) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    TRAPS[trap](folder / name, victim)
    ranks = Ranks(target(1, folder, tp=2), "mine", "0" * 64)
    assert ranks._find() == {}
    ranks.remove()


@pytest.mark.parametrize("trap", TRAPS)
def test_a_dump(trap: str, folder: Path, victim: Path) -> None:
    """Where one should be, and where its files should be."""
    TRAPS[trap](folder / "req_0", victim)
    names = ("meta.json", "aux_0.pt", "final.pt", "input_ids.pt", "done", "error")
    for number, name in enumerate(names, 1):
        dump(folder, number)
        (folder / f"req_{number}" / name).unlink(missing_ok=True)
        TRAPS[trap](folder / f"req_{number}" / name, victim)
    found = watch.newest(str(folder), 100)
    states = {row.number: row.state for row in found.rows}
    assert all(states[number] is not DumpState.COMPLETE for number in range(1, len(names) + 1)), states
    for number in range(1, 5):
        assert not all(check.verdict.value == "ok" for check in detail.show(str(folder), number).checks)
    assert write(desk(folder)) is None
    assert (folder / f"req_{len(names) + 1}" / "done").exists()


@pytest.mark.parametrize("trap", TRAPS)
def test_the_counter(trap: str, folder: Path, victim: Path) -> None:
    """A dump is written under a number of its own, or it is said why not."""
    TRAPS[trap](folder / ".counter", victim)
    with contextlib.suppress(OSError):
        assert write(desk(folder)) is not None or (folder / "req_0" / "done").exists()


@pytest.mark.parametrize("trap", TRAPS)
def test_a_model(trap: str, tmp_path: Path, victim: Path) -> None:
    """Anybody's process may name its folder on a command line."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        TRAPS[trap](folder / name, victim)
    assert not survey._is_model(str(folder))
    assert model._problem(str(folder / "model.safetensors"))


@pytest.mark.parametrize("trap", TRAPS)
def test_a_log(trap: str, tmp_path: Path, victim: Path) -> None:
    TRAPS[trap](tmp_path / "log", victim)
    with contextlib.suppress(OSError):
        assert log.last_lines(str(tmp_path / "log")) == ["precious"]


@pytest.mark.parametrize("trap", TRAPS)
def test_the_dump_folder(trap: str, tmp_path: Path, victim: Path) -> None:
    TRAPS[trap](tmp_path / "dumps", victim)
    watch.newest(str(tmp_path / "dumps"), 10)
