"""The line or the agent goes away: noticed, told by cause, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import paramiko
import pytest

from console import client as clients
from console.channel import GIVEN_UP
from console.client import AgentClient
from console.config.profile import Profile
from console.errors import LinkError, LinkLost
from console.ssh import bootstrap, pack
from console.ssh.exchange import answered
from remote.agent import loop
from tests.link import drops
from tests.link.conftest import packed
from tests.link.sshd import Sshd
from tests.living import PATIENCE, wait_for_the_end


def lost(client: AgentClient) -> str:
    """Why, once that is noticed: sooner than by silence."""
    deadline = time.monotonic() + GIVEN_UP - 2
    while client.lost is None:
        assert time.monotonic() < deadline, "the loss was not noticed"
        time.sleep(0.02)
    return client.lost.what


def test_killed_session(client: AgentClient, sshd: Sshd) -> None:
    pid = client.hello.pid
    sshd.kill_sessions()
    lost(client)
    with pytest.raises(LinkLost) as caught:
        client.call("ping")
    assert "Nothing was asked" in caught.value.remedy
    wait_for_the_end([pid])


def test_killed_agent(client: AgentClient) -> None:
    os.kill(client.hello.pid, signal.SIGKILL)
    assert "was killed" in lost(client)


def test_an_agent_that_dies_has_its_last_words(client: AgentClient) -> None:
    with pytest.raises(LinkLost, match=r"ended with status 3\. MemoryError: \[boom\]"):
        client.call("die", word="MemoryError: [boom]")


def test_stopped_sshd(client: AgentClient, sshd: Sshd) -> None:
    sshd.stop()
    lost(client)


def test_garbage_instead_of_frames(client: AgentClient) -> None:
    with pytest.raises(LinkLost, match="not a frame"):
        client.call("garbage")


def test_every_waiting_call_and_stream_is_told(client: AgentClient, sshd: Sshd) -> None:
    begun: SimpleQueue[Any] = SimpleQueue()
    told: SimpleQueue[Any] = SimpleQueue()

    def wait() -> None:
        try:
            client.call("until_cancelled", on_event=begun.put)
        except LinkLost as error:
            told.put(error)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    client.stream("watch.ticks", lambda _: None, told.put)
    for _ in threads:
        begun.get(timeout=PATIENCE)
    sshd.kill_sessions()
    errors = [told.get(timeout=PATIENCE) for _ in range(6)]
    assert all(isinstance(error, LinkLost) and "cut off midway" in error.remedy for error in errors)


def test_close_ends_the_agent_at_once(profile: Profile) -> None:
    client = clients.connect(profile)
    began = time.monotonic()
    client.close()
    wait_for_the_end([client.hello.pid])
    assert time.monotonic() - began < loop.GRACE, "which is for what is under way"


def test_what_is_under_way_comes_to_its_end(profile: Profile, tmp_path: Path) -> None:
    client = clients.connect(profile)

    def ask() -> None:
        with pytest.raises(LinkLost):
            client.call("once", path=str(tmp_path / "n"))

    asking = threading.Thread(target=ask)
    asking.start()
    while not (tmp_path / "n").exists():
        time.sleep(0.01)
    client.close()
    asking.join()
    wait_for_the_end([client.hello.pid])
    assert (tmp_path / "n").read_text() == "begun\nended\n"


def test_ten_drops_leave_nothing(profile: Profile, sshd: Sshd) -> None:
    """Fifty are in tests/bed/test_logins.py."""

    def drop(number: int, agents: list[int]) -> None:
        if number == 9:
            sshd.stop()
            sshd.start()
        elif number % 2:
            sshd.kill_sessions()
        else:
            os.kill(agents[0], signal.SIGKILL)

    drops.leave_nothing(profile, 1, 10, drop, sshd.sessions)


def test_an_agent_that_does_not_start_tells_why(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = pack.build({**pack.sources(), "remote/agent/calls.py": b"raise ImportError('no such luck')"})
    monkeypatch.setattr(bootstrap, "pack", lambda: broken)
    with pytest.raises(LinkError, match=r"did not start: .*status 1.*no such luck"):
        clients.connect(profile)


def test_an_agent_that_hears_nothing_ends(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {**pack.sources(), "remote/agent/calls.py": Path(__file__).with_name("table.py").read_bytes()}
    impatient = sources["remote/agent/loop.py"].replace(b"SILENCE = 60.0", b"SILENCE = 1.0")
    quick = pack.build({**sources, "remote/agent/loop.py": impatient})
    assert quick.digest != packed().digest
    monkeypatch.setattr(bootstrap, "pack", lambda: quick)
    monkeypatch.setattr(clients, "PING_EVERY", 30.0)
    client = clients.connect(profile)
    client.stream("watch.ticks", lambda _: None)
    assert "status 0" in lost(client)
    client.close()


def test_a_late_answer_on_a_broken_line_is_a_timeout_and_no_traceback() -> None:
    class Broken(paramiko.Channel):
        def close(self) -> None:
            raise EOFError

    def ask() -> None:
        time.sleep(0.2)
        raise paramiko.SSHException("the channel is closed")

    with pytest.raises(TimeoutError, match="no answer within"), answered(Broken(1), 0.05):
        ask()
