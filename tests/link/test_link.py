"""A link that lasts: it comes back, its streams go on, and it says at all times how it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console import channel, client, clock
from console import link as links
from console.config.profile import Profile
from console.errors import AuthenticationFailed, HostKeyUnknown, LinkLost
from console.link import Link, LinkPhase, LinkState
from console.ssh import bootstrap, connection, dial, pack
from console.tui.clock import SystemClock
from console.tui.picture import Picture
from remote.wire.server import LogLines
from remote.wire.telemetry import ShmSnapshot
from tests.link.conftest import TABLE, profile_of
from tests.link.listener import Listener
from tests.link.proxy import Proxy, proxy
from tests.link.sshd import SshConfig, Sshd, keygen
from tests.living import PATIENCE

MakeLink = Callable[..., Link]


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def make_link(listener: Listener) -> Iterator[MakeLink]:
    made: list[Link] = []

    def make(profile: Profile, streams: tuple[str, ...] = (), **more: Any) -> Link:
        made.append(Link(profile, listener.on_link, **more))
        listener.watch(made[-1], *streams)
        return made[-1]

    yield make
    for link in made:
        link.close()


@pytest.fixture
def line(sshd: Sshd, config: SshConfig) -> Iterator[Proxy]:
    """A line to `sshd` that can go silent."""
    with proxy(sshd.port) as made:
        config.host("ct", sshd)
        with config.known_hosts.open("a") as file:
            file.write(sshd.known_hosts_line.replace(str(sshd.port), str(made.port)))
        yield made


def test_live_with_hello_round_trip_and_streams(profile: Profile, listener: Listener, make_link: MakeLink) -> None:
    link = make_link(profile, ("watch.log", "watch.ticks"))
    listener.until(LinkPhase.LIVE)
    assert listener.phases == [LinkPhase.CONNECTING, LinkPhase.LIVE]
    listener.wait(lambda: {"watch.log", "watch.ticks"} <= {name for name, _ in listener.events}, PATIENCE)
    assert ("watch.log", LogLines(lines=("a", "b"), path="/l", place="the place of b")) in listener.events
    listener.wait(lambda: listener.states[-1].round_trip_ms, PATIENCE)
    state = link.state
    assert state.hello is not None
    assert abs(state.clock_offset) < 60
    assert link.call("echo", value=1) == 1
    link.close()
    assert listener.states[-1].phase is LinkPhase.CLOSED
    with pytest.raises(LinkLost):
        link.call("echo", value=1)


@pytest.mark.parametrize("fault", ["session killed", "agent killed", "sshd restarted"])
def test_it_comes_back_and_its_streams_go_on(
    profile: Profile, sshd: Sshd, listener: Listener, make_link: MakeLink, fault: str
) -> None:
    link = make_link(profile, ("watch.ticks",))
    extra: list[Any] = []
    link.stream("watch.ticks", extra.append, pause=0.05)
    listener.wait(lambda: listener.events and extra, PATIENCE)
    before = listener.events[-1][1]["pid"]
    if fault == "session killed":
        sshd.kill_sessions()
    elif fault == "agent killed":
        with pytest.raises(LinkLost):
            link.call("exit", status=9)
    else:
        sshd.stop()
        sshd.start()
    listener.until(LinkPhase.LOST)
    assert listener.states[-1].error is not None
    assert listener.states[-1].retry_at is not None
    listener.wait(lambda: listener.events[-1][1]["pid"] != before, PATIENCE)
    listener.wait(lambda: extra[-1]["pid"] == listener.events[-1][1]["pid"], PATIENCE)
    assert listener.phases[-4:] == [LinkPhase.LIVE, LinkPhase.LOST, LinkPhase.CONNECTING, LinkPhase.LIVE]


def test_a_closed_link_says_nothing_but_its_last_state(profile: Profile, listener: Listener) -> None:
    link = Link(profile, listener.on_link)
    listener.watch(link, "watch.ticks")
    listener.wait(lambda: listener.events, PATIENCE)
    (stream,) = link._streams._wanted
    link.close()
    heard = len(listener.events), len(listener.states)
    stream._take({"pid": 1})
    assert (len(listener.events), len(listener.states)) == heard
    assert listener.states[-1].phase is LinkPhase.CLOSED


def test_the_log_goes_on_where_it_was(profile: Profile, sshd: Sshd, listener: Listener, make_link: MakeLink) -> None:
    make_link(profile, ("watch.log",))
    listener.wait(lambda: listener.events, PATIENCE)
    sshd.kill_sessions()
    listener.wait(lambda: len(listener.events) > 1, PATIENCE)
    assert [value.lines for _, value in listener.events] == [("a", "b"), ("after the place of b",)]


def test_l04_a_short_silence_is_stale_and_heals_by_itself(
    line: Proxy,
    config: SshConfig,
    listener: Listener,
    make_link: MakeLink,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (channel, client):
        monkeypatch.setattr(module, "GIVEN_UP", PATIENCE)  # however slow the machine
    link = make_link(profile_of("ct", config, port=line.port), ("watch.ticks",))
    listener.until(LinkPhase.LIVE)
    listener.wait(lambda: listener.events, PATIENCE)
    line.silent.set()
    answer: list[Any] = []
    typed = threading.Thread(target=lambda: answer.append(link.call("once", path=str(tmp_path / "n"))))
    assert listener.until(LinkPhase.STALE) <= 3 * 5.0
    typed.start()
    time.sleep(1.5)
    line.silent.clear()
    listener.until(LinkPhase.LIVE)
    typed.join(PATIENCE)
    assert answer == [1]
    assert line.connections == 1


def test_l04_a_long_silence_is_lost_and_live_again_soon_after_its_end(
    line: Proxy, config: SshConfig, listener: Listener, make_link: MakeLink, tmp_path: Path
) -> None:
    link = make_link(profile_of("ct", config, port=line.port), ("watch.ticks",))
    listener.until(LinkPhase.LIVE)
    listener.wait(lambda: listener.events, PATIENCE)
    line.silent.set()
    listener.until(LinkPhase.STALE)
    with pytest.raises(LinkLost, match="nothing was heard"):
        link.call("once", path=str(tmp_path / "n"))
    listener.wait(lambda: line.connections > 1, PATIENCE)
    time.sleep(1.0)
    line.silent.clear()
    assert listener.until(LinkPhase.LIVE) < 3 * 10.0
    assert listener.states[-1].hello is not None
    seen = len(listener.events)
    listener.wait(lambda: len(listener.events) > seen, PATIENCE)


def test_after_the_laptops_sleep_nothing_counts_as_fresh(
    profile: Profile, listener: Listener, make_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = make_link(profile)
    listener.wait(lambda: listener.states and listener.states[-1].round_trip_ms, PATIENCE)
    picture = Picture(profile, SystemClock())
    picture.see_link(link.state)
    picture.see(ShmSnapshot(0.0, "/dev/shm"))
    slept, awake = 3600.0, clock.now
    monkeypatch.setattr(clock, "now", lambda: awake() + slept)
    seen = len(listener.states)
    listener.wait(lambda: any(s.phase in (LinkPhase.STALE, LinkPhase.LOST) for s in listener.states[seen:]), PATIENCE)
    assert (picture.age(ShmSnapshot) or 0.0) >= slept
    listener.until(LinkPhase.LIVE)
    listener.wait(lambda: listener.states[-1].round_trip_ms, PATIENCE)
    assert abs(listener.states[-1].clock_offset) < 60


def test_the_clock_goes_on_while_the_machine_sleeps() -> None:
    assert clock.now() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)


def test_a_refusal_is_not_retried_until_asked(
    sshd: Sshd, config: SshConfig, listener: Listener, make_link: MakeLink
) -> None:
    config.host("ct", sshd, known=False)
    asked: list[str] = []

    def ask(host: str, kind: str, fingerprint: str) -> bool:
        asked.append(fingerprint)
        return len(asked) > 1

    link = make_link(profile_of("ct", config), ask_host_key=ask)
    listener.until(LinkPhase.REFUSED)
    assert isinstance(listener.states[-1].error, HostKeyUnknown)
    time.sleep(1.5)
    assert listener.phases == [LinkPhase.CONNECTING, LinkPhase.REFUSED]
    link.retry_now()
    listener.until(LinkPhase.LIVE)
    assert len(asked) == 2


def test_a_wrong_key_is_refused(
    sshd: Sshd, config: SshConfig, listener: Listener, make_link: MakeLink, tmp_path: Path
) -> None:
    config.host("ct", sshd)
    make_link(profile_of("ct", config, key=str(keygen(tmp_path / "wrong"))))
    listener.until(LinkPhase.REFUSED)
    assert isinstance(listener.states[-1].error, AuthenticationFailed)


def test_it_backs_off_and_retry_now_does_not_wait(
    profile: Profile, sshd: Sshd, listener: Listener, make_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert links.BACKOFF[-1] + dial.CONNECT < 10, "what is promised"
    monkeypatch.setattr(links, "BACKOFF", (1.0, 2.0, 600.0))
    sshd.stop()
    link = make_link(profile)
    listener.wait(lambda: [s.phase for s in listener.states].count(LinkPhase.LOST) == 3, PATIENCE)
    waits = [s.retry_at - s.since for s in listener.states if s.retry_at is not None]
    assert [round(wait) for wait in waits] == [1, 2, 600]
    sshd.start()
    link.retry_now()
    listener.until(LinkPhase.LIVE)


def test_s12_a_clock_two_hours_ahead(
    profile: Profile, listener: Listener, make_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TABLE.read_bytes().replace(b'{"now": time.time()}', b'{"now": time.time() + 7200}')
    ahead = pack.build({**pack.sources(), "remote/agent/calls.py": table})
    monkeypatch.setattr(bootstrap, "pack", lambda: ahead)
    make_link(profile)
    listener.until(LinkPhase.LIVE)
    listener.wait(lambda: listener.states[-1].round_trip_ms, PATIENCE)
    assert listener.states[-1].clock_offset == pytest.approx(7200, abs=60)


def test_a_stream_that_fails_is_told_and_asked_for_again(
    profile: Profile, listener: Listener, make_link: MakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.subscriptions.AGAIN", 0.3)
    make_link(profile, ("watch.ends", "watch.fault"))
    listener.wait(lambda: len(listener.events) > 1, PATIENCE)
    listener.wait(lambda: "watch.fault: " in listener.states[-1].detail, PATIENCE)
    assert listener.states[-1].phase is LinkPhase.LIVE


def test_nothing_is_told_behind_the_end(profile: Profile) -> None:
    """A state under way when another thread closes the link is told before the last one, and is not the last."""
    told: list[LinkPhase] = []
    begun, go_on = threading.Event(), threading.Event()

    def on_link(state: LinkState) -> None:
        begun.set()
        go_on.wait(PATIENCE)
        told.append(state.phase)

    link = Link(profile, on_link)
    link.start()
    assert begun.wait(PATIENCE)
    closing = threading.Thread(target=link.close)
    closing.start()
    closing.join(1.0)  # longer than it waits for the link's thread
    go_on.set()
    closing.join(PATIENCE)
    assert told == [LinkPhase.CONNECTING, LinkPhase.CLOSED]


@pytest.mark.parametrize("moment", ["at once", "while the host is silent", "while asking", "while live"])
def test_close_is_prompt(
    line: Proxy, sshd: Sshd, config: SshConfig, listener: Listener, make_link: MakeLink, moment: str
) -> None:
    asking, answered = threading.Event(), threading.Event()

    def ask(*_: str) -> bool:
        asking.set()
        return not answered.wait(60)

    if moment == "while the host is silent":
        line.silent.set()
    if moment == "while asking":
        config.known_hosts.write_text("")
    link = make_link(profile_of("ct", config, port=line.port), ("watch.ticks",), ask_host_key=ask)
    if moment == "while the host is silent":
        time.sleep(0.5)
    if moment == "while asking":
        assert asking.wait(60)
    if moment == "while live":
        listener.until(LinkPhase.LIVE)
    began = time.monotonic()
    link.close()
    took = time.monotonic() - began
    answered.set()
    assert took < connection.HANDSHAKE, "no answer is waited for"
    time.sleep(0.2)
    assert listener.states[-1].phase is LinkPhase.CLOSED
