"""Numbers, leftovers and publishing, with other processes at work."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

import pytest

from remote.dumper.folder import Folder

CLAIM = """
import sys
from remote.dumper.folder import Folder
folder = Folder(sys.argv[1])
folder.prepare()
for _ in range(50):
    print(folder.claim())
"""


def a_dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"req_{number}").mkdir()
    folder = Folder(str(tmp_path))
    folder.prepare()
    assert [folder.claim(), folder.claim()] == [9, 10]
    again = Folder(str(tmp_path))
    again.prepare()
    assert again.claim() == 11, "claimed numbers count, whether or not their directory was ever there"


@pytest.mark.parametrize("odd", ["req_foo", "req_-1", "req_007", "req_5x", ".req_7", "req_" + "9" * 26, "req_٣"])
def test_odd_names_are_no_numbers(tmp_path: Path, odd: str) -> None:
    (tmp_path / odd).mkdir()
    assert Folder(str(tmp_path)).claim() == 0


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 64, b"3\n", b"9" * 26])
def test_a_counter_that_is_lost_or_low_never_brings_a_number_back(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "req_41").mkdir()
    (tmp_path / ".counter").write_bytes(content)
    assert Folder(str(tmp_path)).claim() == 42


def test_a_number_taken_behind_the_counters_back_is_not_claimed(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    assert folder.claim() == 0
    (tmp_path / "req_1").write_text("a file")
    (tmp_path / "req_7").symlink_to(tmp_path / "req_7")
    assert folder.claim() == 8


def test_a_deleted_folder_is_made_again_and_its_numbers_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    folder = Folder(str(tmp_path / "hs"), lambda: said.append("remade"))
    folder.prepare()
    assert [folder.claim(), folder.claim()] == [0, 1]
    (tmp_path / "hs" / ".counter").unlink()
    (tmp_path / "hs").rmdir()
    assert folder.claim() == 2
    assert said == ["remade"]


def test_processes_and_threads_never_claim_one_number_twice(tmp_path: Path) -> None:
    others = [
        subprocess.Popen([sys.executable, "-c", CLAIM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    folder = Folder(str(tmp_path))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        claimed = list(pool.map(lambda _: folder.claim(), range(50)))
    for process in others:
        claimed += [int(line) for line in process.communicate()[0].split()]
    assert sorted(claimed) == list(range(200))


def test_leftovers_of_dead_writers_are_removed_those_of_others_stay(tmp_path: Path) -> None:
    dead, own, living = f".req_1.{a_dead_pid()}", f".req_2.{os.getpid()}", f".req_3.{os.getppid()}"
    for name in (dead, own, living):
        (tmp_path / name).mkdir()
        (tmp_path / name / "aux_0.pt").write_bytes(b"half")
    folder = Folder(str(tmp_path))
    folder.prepare()
    assert [path.name for path in tmp_path.glob(".req_*")] == [living]
    assert folder.claim() == 4


def test_publishing_never_replaces_a_request(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    number = folder.claim()
    aside = Path(folder.aside(number))
    (tmp_path / f"req_{number}").mkdir()
    (tmp_path / f"req_{number}" / "done").touch()
    with pytest.raises(OSError, match="not empty"):
        folder.publish(str(aside), number)
    assert (tmp_path / f"req_{number}" / "done").exists()


def test_a_link_in_place_of_the_counter_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / ".counter").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        Folder(str(tmp_path / "dumps")).claim()
    assert not (tmp_path / "elsewhere").exists()
