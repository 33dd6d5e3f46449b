"""Which processes are a server, whose, and which are abandoned. Tables of processes, as /proc would give them."""

from __future__ import annotations

import pytest

from remote import processes
from remote.processes import Process
from remote.server import find, state
from remote.server.command import DUMP_DIR
from remote.wire.server import Phase
from remote.wire.target import Target

TARGET = Target("/p", "/m", port=8000, dump_dir="/dumps")
INIT = (1, 0, 1, "/sbin/init")
SHELL = (50, 1, 50, "-bash")
LAUNCHER = (100, 50, 50, "python", "-m", "sglang.launch_server", "--port", "8000")
FORKED = (101, 100, 50, "python", "-m", "sglang.launch_server", "--port", "8000")
SCHEDULER = (110, 100, 50, "sglang::scheduler_TP0")
DETOKENIZER = (111, 110, 50, "sglang::detokenizer")
LIBRARY = (100, 50, 50, "python", "generate_with_engine.py")
REAPER = (60, 1, 60, "/lib/systemd/systemd", "--user")


def table(*rows: tuple[object, ...]) -> dict[int, Process]:
    found = {}
    for pid, parent, session, *argv in rows:
        assert isinstance(pid, int)
        assert isinstance(parent, int)
        assert isinstance(session, int)
        words = tuple(map(str, argv))
        found[pid] = Process(pid, 1000 + pid, parent, session, session, "S", 1, 0, words[0], words)
    return found


def orphaned(row: tuple[object, ...], parent: int) -> tuple[object, ...]:
    return (row[0], parent, *row[2:])


@pytest.mark.parametrize(
    ("rows", "parent", "members"),
    [
        ((INIT, SHELL, LAUNCHER, SCHEDULER, DETOKENIZER), 100, [100, 110, 111]),
        ((INIT, SHELL, LAUNCHER, FORKED, SCHEDULER), 100, [100, 101, 110]),
        ((INIT, SHELL, orphaned(SCHEDULER, 1), DETOKENIZER), None, [110, 111]),
        ((INIT, SHELL, REAPER, orphaned(SCHEDULER, 60), DETOKENIZER), None, [110, 111]),
        ((INIT, SHELL, LIBRARY, SCHEDULER, DETOKENIZER), None, []),
        ((INIT, SHELL, (*LAUNCHER[:-1], "9000"), SCHEDULER), None, []),
        ((INIT, SHELL, LAUNCHER[:-2], SCHEDULER), None, []),  # SGLang's default port is another
        (((1, 0, 1, "python", "main.py"), (110, 1, 1, "sglang::scheduler")), None, []),
        (((1, 0, 1, "tini"), (110, 1, 1, "sglang::scheduler")), None, [110]),
        ((INIT, SHELL, (7, 50, 50, "grep", "sglang.launch_server", "--port", "8000")), None, []),
        ((INIT, (5, 5, 50, "sglang::scheduler")), None, [5]),  # its own parent: no loop
    ],
)
def test_servers_and_orphans(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[tuple[object, ...], ...], parent: int | None, members: list[int]
) -> None:
    monkeypatch.setattr(processes, "table", lambda: table(*rows))
    found = find.find(TARGET)
    assert (found.parent.pid if found.parent else None) == parent
    assert [member.process.pid for member in found.members] == members
    assert not found.ours


@pytest.mark.parametrize(
    ("environment", "counted"),
    [({}, True), ({DUMP_DIR: "/dumps"}, True), ({DUMP_DIR: "/dumps/of/another"}, False)],
)
def test_orphans_of_another_profile_are_not_this_ones(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], counted: bool
) -> None:
    monkeypatch.setattr(processes, "table", lambda: table(INIT, orphaned(SCHEDULER, 1)))
    monkeypatch.setattr(processes, "environ", lambda _: environment)
    assert bool(find.find(TARGET).members) is counted


@pytest.mark.parametrize("looks", [1, 3])
def test_children_of_a_server_that_is_ending_are_no_orphans(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    monkeypatch.setattr(find, "ENDING", 0.5)
    seen = iter([*[table(INIT, orphaned(SCHEDULER, 1))] * looks, *[table(INIT)] * 100])
    monkeypatch.setattr(processes, "table", lambda: next(seen))
    assert find.settled(TARGET).members == ()


def test_orphans_that_stay_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "ENDING", 0.2)
    monkeypatch.setattr(processes, "table", lambda: table(INIT, orphaned(SCHEDULER, 1)))
    watcher = state.Observer(TARGET)
    assert watcher.look().phase is Phase.ORPHANS
    monkeypatch.setattr(find, "settled", lambda _: pytest.fail("waited again"))
    assert watcher.look().phase is Phase.ORPHANS
