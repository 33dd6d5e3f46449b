"""What the Proxmox host prints, recorded on a real one of the bed's, and what is made of it, whole or cut."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.operations import hostcommands, hostview
from console.operations.hostview import HostFacts, HostProcess

RECORDED = Path(__file__).with_name("recorded")
MARK = "hs-0123456789abcdef"
KEPT = ("stat", "status", "cgroup")


def look(name: str) -> str:
    return (RECORDED / f"look-{name}.txt").read_text()


def one(name: str) -> HostProcess:
    (process,) = hostview.parse(look(name), MARK).processes
    return process


def test_orphans() -> None:
    facts = hostview.parse(look("orphans"), MARK)
    assert facts.listeners == ("0.0.0.0:8000",)
    assert [(process.inner, process.name, process.holds) for process in facts.processes] == [
        (53, "sglang::schedul", ("0.0.0.0:8000",)),
        (54, "sglang::detoken", ("0.0.0.0:8000",)),
    ]
    assert all(process.titled and process.dump_dir == "/dev/shm/sglang_hs" for process in facts.processes)


def test_a_dead_main_thread_is_told_by_its_threads() -> None:
    process = one("dead-leader")
    assert (process.state, process.holds) == ("Z", ("0.0.0.0:8000",))
    assert process.command.startswith("python3 -m sglang.launch_server")
    assert process.dump_dir == "/dev/shm/sglang_hs"


def test_outside_of_the_container() -> None:
    process = one("outside")
    assert process.inner is None
    assert process.command == "/usr/bin/python3 /opt/holders.py --port 8000 plain"


def test_a_frozen_control_group_is_told_by_the_file_that_thaws_it() -> None:
    assert one("frozen").frozen == ("/sys/fs/cgroup/freezer/user.frozen/freezer.state",)


def test_a_wait_in_the_kernel() -> None:
    process = one("blocked")
    assert (process.state, process.waits) == ("D", "request_wait_answer")


def test_ipv6() -> None:
    assert one("ipv6").holds == ("[::]:8000",)


def test_nobody_and_stopped() -> None:
    free = hostview.parse(look("free"), MARK)
    assert free.init is not None
    assert not free.listeners
    assert hostview.parse(look("stopped"), MARK) == HostFacts(None)


def test_words_of_a_login_shell_around_it_are_nothing() -> None:
    noisy = f"Welcome to pve!\nproc 1 inside\n{look('orphans')}logout\n"
    assert hostview.parse(noisy, MARK) == hostview.parse(look("orphans"), MARK)


@pytest.mark.parametrize("name", ["orphans", "dead-leader", "outside", "frozen", "blocked", "ipv6", "free", "stopped"])
def test_cut_anywhere_it_is_refused(name: str) -> None:
    whole = look(name)
    for length in range(0, len(whole) - len(" end\n"), 7):
        with pytest.raises(hostview.Unreadable, match="not whole"):
            hostview.parse(whole[:length], MARK)


@pytest.mark.parametrize(
    "line",
    [
        *("proc 1 inside", "proc x inside - a.b.c.d.e", "listen 0:1F40", "hold socket:[9] /proc/1/fd/3"),
        *("clock 100", "clock 0 1 1"),
    ],
)
def test_garbled_it_is_refused(line: str) -> None:
    with pytest.raises(hostview.Unreadable, match="garbled"):
        hostview.parse(look("orphans").replace(f"{MARK} end", f"{line}\n{MARK} end"), MARK)


def answer(pid: int, ticks: int, name: str) -> str:
    line = hostcommands.line("", hostcommands.signal(name, [[pid, ticks]]))
    done = subprocess.run(["sh", "-c", f"echo Welcome; {line}"], capture_output=True, text=True, check=False)
    return hostcommands.answers(done.stdout)[f"{pid}:{ticks}"]


def ticks_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_signal_goes_only_to_the_process_that_was_meant() -> None:
    # a name that would lead astray who splits at the first parenthesis
    hostile = "import time; open('/proc/self/comm', 'w').write(') S 1 (x'); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", hostile])
    try:
        deadline = time.monotonic() + 30
        while ") S 1 (x" not in Path(f"/proc/{process.pid}/comm").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ticks = ticks_of(process.pid)
        assert answer(process.pid, ticks + 1, "KILL") == "gone"
        assert answer(process.pid, ticks, "0").startswith("there ")
        assert process.poll() is None
        assert answer(process.pid, ticks, "KILL") == "sent"
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
    assert answer(process.pid, ticks, "KILL") == "gone"


def test_what_may_not_be_signalled_is_said() -> None:
    if os.geteuid() == 0:
        assert answer(2**22 + 1, 1, "KILL") == "gone"
    else:
        assert answer(1, ticks_of(1), "TERM").startswith("failed")


def describe(folders: list[Path], path: str) -> list[HostProcess]:
    script = (hostview.SCRIPTS / "process.sh").read_text() + '\ninside=none; for one; do describe "$one"; done'
    line = ["/bin/sh", "-c", script, "hsconsole", *map(str, folders)]
    done = subprocess.run(line, env={"PATH": path}, capture_output=True, text=True, check=True, timeout=60)
    lines = [line.replace(f"{folders[0].parent}/", "") for line in done.stdout.splitlines()]
    records = [(kind, rest) for kind, _, rest in (line.partition(" ") for line in lines)]
    return hostview.processes([("clock", "100 9.0 9.0"), *records], {})


def copied(folder: Path) -> Path:
    """What can be read of this very process, but for what is its memory."""
    shutil.copytree(f"/proc/{os.getpid()}", folder, ignore=lambda _, names: [n for n in names if n not in KEPT])
    (folder / "task/7").mkdir(parents=True)
    return folder


def test_processes_whose_memory_hangs_are_described_all_the_same(tmp_path: Path) -> None:
    """By their names: whoever reads their command lines, as `ps` does, waits for ever for a driver that holds memory.

    Each is waited for once, and only the first for long: the look as a whole has its time too.
    """
    folders = [copied(tmp_path / "proc" / str(pid)) for pid in (7, 8)]
    never = []
    for folder in folders:
        for name in ("cmdline", "environ"):
            os.mkfifo(folder / name)
            never.append(os.open(folder / name, os.O_RDWR))  # so that it can be opened, and not read
    asked = tmp_path / "asked"
    (tmp_path / "timeout").write_text(f'#!/bin/sh\necho "$1" >>{asked}\nexec /usr/bin/timeout "$@"\n')
    (tmp_path / "timeout").chmod(0o755)
    try:
        found = describe(folders, f"{tmp_path}:/usr/bin:/bin")
    finally:
        for handle in never:
            os.close(handle)
    name = Path("/proc/self/comm").read_text().strip()
    assert [one.command for one in found] == [f"[{name}] {hostview.LATE}"] * 2
    assert asked.read_text().split() == ["2", "0.5"]


def test_a_dead_main_thread_has_the_words_of_its_last_task(tmp_path: Path) -> None:
    folder = copied(tmp_path / "proc/7")
    (folder / "cmdline").touch()
    (folder / "task/7/cmdline").write_bytes(b"sglang::scheduler\0-x\0")
    (folder / "task/7/environ").write_bytes(b"A=1\0SGLANG_HS_DUMP_DIR=/dev/shm/x\0")
    (found,) = describe([folder], "/usr/bin:/bin")
    assert (found.command, found.dump_dir) == ("sglang::scheduler -x", "/dev/shm/x")


def test_a_host_without_timeout_says_that_it_can_read_no_command_line(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("base64", "cat", "grep", "head", "readlink", "sed", "tr"):
        (programs / name).symlink_to(str(shutil.which(name)))
    folder = copied(tmp_path / "proc/7")
    (folder / "cmdline").write_bytes(b"python3\0")
    (found,) = describe([folder], str(programs))
    assert found.command.endswith(hostview.LATE)
