"""Only one at a time starts, stops or recovers a server; who is turned away is told who does."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from remote import statedir
from remote.server import record
from remote.statedir import state_dir
from remote.wire.errors import Refused, ServerError


def test_the_lock_names_its_holder() -> None:
    with record.lock(1, "is starting"), pytest.raises(Refused, match="is starting the server"), record.lock(1, "x"):
        pass
    with record.lock(1, "is stopping"):
        pass


def test_where_there_is_no_place_for_it_nobody_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statedir, "candidates", lambda env: ["/proc/hsconsole"])
    with record.lock(1, "is stopping"), record.lock(1, "is recovering"):
        assert record.read(1) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_nor_where_no_file_can_be_made(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", fails(number))
    with record.lock(1, "is stopping"), record.lock(1, "is recovering"):
        pass


def test_one_that_another_user_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody goes on without a lock, and without a word."""
    monkeypatch.setattr(os, "open", fails(errno.EACCES))
    with pytest.raises(ServerError, match=r"server-1\.lock: Permission denied"), record.lock(1, "is stopping"):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_home_without_locks_turns_nobody_away(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", fails(number))
    with record.lock(1, "is stopping"), record.lock(1, "is recovering"):
        pass


def fails(number: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


def test_all_may_log_in_as_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """And from one address: it is the operator of whom they are told."""
    monkeypatch.setenv("USER", "root")
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.7 5 10.0.0.9 22")
    by = r"port 1: ann@mac \(root from 10\.0\.0\.7\) is stopping the server \(since "
    with record.acting_for("ann@mac"), record.lock(1, "is stopping"), pytest.raises(Refused, match=by):
        other_operator()
    by = r"port 1: root from 10\.0\.0\.7 is stopping"
    with record.lock(1, "is stopping"), pytest.raises(Refused, match=by), record.lock(1, "is starting"):
        pass


def other_operator() -> None:
    with record.acting_for("bob@desk"), record.lock(1, "is starting"):
        pass


def test_nobody_of_before_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked in the moment before the holder has said who that is: waited for, not taken from who had it last."""
    monkeypatch.setattr(record, "TO_BE_SAID", 60.0)  # however slow the machine
    with record.lock(1, "was starting"):
        pass
    path = Path(state_dir()) / "server-1.lock"
    with path.open("r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        late = threading.Timer(0.3, lambda: path.write_text("ann is stopping"))
        late.start()
        with pytest.raises(Refused, match="port 1: ann is stopping at this moment"), record.lock(1, "x"):
            pass
        late.join()
