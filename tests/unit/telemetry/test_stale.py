"""Which segments dead processes left: with holders in real processes, and 'not known' wherever it is not certain."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import processes
from remote.telemetry import clean, segments, stale, users
from tests.unit.server.conftest import until
from tests.unit.telemetry.leaving import ENDED, TARGET, Hold, judged, left, why


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("nccl-AbCd12", segments.NCCL),
        ("nccl-shm-send-1a2b-0-1-0", segments.NCCL),
        ("sglang_loads_f6f527c609ed_7ff5cb2d.shm", segments.SGLANG),
        (f"sgl_shm_mq_{ENDED}_3a075a05", segments.SGLANG),
        (f"multi_tokenizer_args_{ENDED}", segments.SGLANG),
        ("sglang_host_pool_00ff.mmap", segments.SGLANG),
        ("psm_37c31069", segments.PYTHON),
        ("sem.mp-0zr7rug1", segments.PYTHON),
        (f"sem.loky-{ENDED}-x_1", segments.PYTHON),
        (f"torch_{ENDED}_123456_0", segments.TORCH),
        (f"cuda.shm.0.{ENDED:x}.1", segments.CUDA),
    ],
)
def test_what_nobody_holds_is_stale(shm: Path, name: str, owner: str) -> None:
    left(shm, name)
    (found,) = stale.survey().stale
    assert (found.segment.owner, found.segment.bytes) == (owner, 4096)
    assert found.segment.pid in (None, ENDED)
    assert "nobody has it open" in found.why


@pytest.mark.parametrize(
    "name",
    ["sglang_hs", "psm_37c3106", "psm_37c31069 ", "sem.postgres", "nccl-a\x1b[2J", "nccl-a\n", "PostgreSQL.1", "x"],
)
def test_a_name_that_no_known_maker_gives_is_nobodys(shm: Path, name: str) -> None:
    left(shm, name)
    assert stale.survey().found == ()


def test_only_files_are_segments(shm: Path) -> None:
    (shm / "nccl-folder").mkdir()
    (shm / "nccl-folder" / "psm_37c31069").touch()
    (shm / "psm_00000000").symlink_to("nccl-folder")
    os.mkfifo(shm / "sem.mp-00000000")
    assert stale.survey().found == ()


@pytest.mark.parametrize("way", ["opened", "mapped", "semaphore", "dead_leader"])
def test_what_a_process_holds_is_used(hold: Hold, way: str) -> None:
    pid = hold(way, "psm_37c31069")
    until(lambda: way != "dead_leader" or processes.read(pid).state == "Z")  # type: ignore[union-attr]
    assert judged() == {"psm_37c31069": False}
    assert f"pid {pid} has it open" in why("psm_37c31069")


def test_a_maker_that_lives_keeps_what_it_does_not_hold(hold: Hold, shm: Path) -> None:
    pid = hold("nothing", "x")
    for name in (f"sgl_shm_mm_{pid}_00ff00ff", f"torch_{pid}_1_1", f"cuda.shm.0.{pid:x}.0"):
        left(shm, name)
        assert judged()[name] is False
        assert f"pid {pid}, which made it, lives" in why(name)


def test_a_pid_that_is_anothers_now_keeps_nothing(hold: Hold, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(shm, "torch_4242_1_1")
    pid = hold("nothing", "x")
    look = users.look

    def with_its_pid(device: int) -> users.Uses:
        seen = look(device)
        return dataclasses.replace(seen, started={4242: seen.started[pid]})

    monkeypatch.setattr(users, "look", with_its_pid)
    assert judged() == {"torch_4242_1_1": True}


def test_who_deals_in_segments_may_yet_open_one_that_it_is_old_enough_for(hold: Hold, shm: Path) -> None:
    left(shm, "psm_00000000")
    pid = hold("mapped", "psm_11111111")
    time.sleep(0.15)
    left(shm, "psm_22222222")
    assert judged() == {"psm_00000000": True, "psm_11111111": False, "psm_22222222": False}
    assert f"pid {pid} may have made it" in why("psm_22222222")


def test_a_server_may_open_one_though_it_holds_none(hold: Hold, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = hold("nothing", "x")
    monkeypatch.setattr(processes, "is_sglang", lambda process: process.pid == pid)
    left(shm, "psm_00000000")
    assert judged() == {"psm_00000000": False}


def test_a_clock_set_forward_makes_no_dealer_younger_than_its_segments(
    hold: Hold, shm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold("mapped", "psm_11111111")
    left(shm, "psm_22222222")
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 7200)
    assert judged() == {"psm_11111111": False, "psm_22222222": False}


def test_a_clock_set_back_leaves_it_open(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(shm, "psm_00000000")
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() - 7200)
    assert judged() == {"psm_00000000": None}
    assert "ahead of the clock" in why("psm_00000000")


def test_what_changed_just_now_is_left_alone(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(shm, "psm_00000000")
    monkeypatch.setattr(stale, "QUIET", 60.0)
    monkeypatch.setattr(users, "look", lambda _: pytest.fail("a look through /proc for nothing"))
    assert judged() == {"psm_00000000": False}


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")
def test_another_users_processes_leave_it_unknown(hold: Hold, shm: Path) -> None:
    hold("nothing", "x")
    left(shm, "psm_00000000")
    with as_nobody():
        assert judged() == {"psm_00000000": None}
        assert "log in as root" in why("psm_00000000")


def test_where_not_even_root_may_look(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(shm, "psm_00000000")
    look = users.look
    monkeypatch.setattr(users, "look", lambda device: dataclasses.replace(look(device), unseen=(1,)))
    assert judged() == {"psm_00000000": None}
    assert "process 1" in why("psm_00000000")
    plan = clean.plan(TARGET)
    assert not plan.needed
    assert "can't be told" in plan.notes[0]


def test_a_file_of_a_user_from_outside_leaves_it_unknown(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(shm, "psm_00000000")
    monkeypatch.setattr(stale, "_overflow_uid", os.geteuid)
    assert judged() == {"psm_00000000": None}


OWN, SLAVE = "29 27 0:26 / {} rw - tmpfs tmpfs rw", "29 27 0:26 / {} rw,nosuid shared:5 master:2 - tmpfs tmpfs rw"


@pytest.mark.parametrize(
    ("pid", "ipc", "mount", "container", "says"),
    [
        (stale.FIRST_PID_NAMESPACE, "ipc:[1]", SLAVE, "", ""),
        ("pid:[1]", "ipc:[1]", OWN, "lxc", ""),
        ("pid:[1]", stale.FIRST_IPC_NAMESPACE, OWN, "lxc", "the host's /dev/shm"),
        ("pid:[1]", "ipc:[1]", SLAVE, "lxc", "from outside"),
        ("pid:[1]", "ipc:[1]", OWN, "docker", "no LXC container (docker)"),
        ("pid:[1]", "ipc:[1]", OWN, "", "of an unknown kind"),
    ],
)
def test_who_may_share_it_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: str, ipc: str, mount: str, container: str, says: str
) -> None:
    for folder in ("self/ns", "1"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(pid)
    (tmp_path / "self/ns/ipc").symlink_to(ipc)
    (tmp_path / "self/mountinfo").write_text(mount.format(segments.SHM) + "\n")
    (tmp_path / "1/environ").write_bytes(f"A=1\0container={container}\0".encode())
    monkeypatch.setattr(stale, "PROC", tmp_path)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    found = stale.outside()
    assert says in found
    assert bool(says) is bool(found)


# Cleaning
