"""Every way a line goes away, on the real bed: told as stale, live again by itself, and nothing done twice.

Seconds are asserted three times as long as they may take, for a busy machine; docs/recovery.md has what they take.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from console.config.profile import Profile
from console.link import Link, LinkPhase, LinkState
from console.operations import fate, recover
from console.operations.fate import CutOff
from console.operations.recovery_wish import ACTION
from console.tui.app import HsConsoleApp
from remote.wire.plan import Outcome, StepResult
from tests.bed import line
from tests.bed.conftest import profile_of
from tests.bed.container import ANSWERS, Ground
from tests.bed.machines import Bed
from tests.link.listener import Listener
from tests.ui.stagehand import until, words

NOTICED, BACK = 5.0, 10.0  # seconds: what is promised
PATIENCE = 3.0  # times as long


class Watched(Listener):
    """A link that is watched."""

    def __init__(self, profile: Profile, on_state: Callable[[LinkState], None] = lambda _: None) -> None:
        super().__init__()
        self._on_state = on_state
        self.link = Link(profile, self.on_link)
        self.watch(self.link, "watch.shm")

    def on_link(self, state: LinkState) -> None:
        super().on_link(state)
        self._on_state(state)

    def until_live(self, seconds: float = BACK * PATIENCE) -> float:
        """Live, with a value that has come since; returns how long that took."""
        seen = len(self.events)
        return self.wait(lambda: self.states[-1].phase is LinkPhase.LIVE and len(self.events) > seen, seconds)

    def until_not_live(self, seconds: float = NOTICED * PATIENCE) -> float:
        return self.wait(lambda: self.states[-1].phase is not LinkPhase.LIVE, seconds)


@contextlib.contextmanager
def watched(profile: Profile) -> Iterator[Watched]:
    made = Watched(profile)
    try:
        made.wait(lambda: made.events, BACK * PATIENCE)
        yield made
    finally:
        made.link.close()


@dataclasses.dataclass(frozen=True)
class Fault:
    """mend: returns when the line leads somewhere again. away: seconds in between."""

    cut: Callable[[Ground], object]
    mend: Callable[[Ground], object] = lambda _: None
    away: float = 0.0


def stop_sshd(ground: Ground) -> None:
    ground.sh("systemctl stop ssh")
    ground.kill_sessions()


def start_sshd(ground: Ground) -> None:
    """As often as a test wants, which systemd would refuse."""
    ground.sh(f"systemctl reset-failed ssh; systemctl start ssh && {ANSWERS}")


def stop_container(ground: Ground) -> None:
    ground.bed.host("pct", "stop", "129")


def start_container(ground: Ground) -> None:
    assert ground.bed.host("pct", "start", "129").returncode == 0
    ground.sh(ANSWERS)


FAULTS = {
    "session killed": Fault(Ground.kill_sessions),
    "reset": Fault(lambda _: line.reset(), lambda _: line.mend(), 3.0),
    "sshd stopped": Fault(stop_sshd, start_sshd, 3.0),
    "container stopped": Fault(stop_container, start_container, 2.0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_line_that_breaks(name: str, profile: Profile, ground: Ground) -> None:
    fault = FAULTS[name]
    with watched(profile) as link:
        noticed = go_through(link, fault, ground)
        tell(name, noticed, link.until_live())


def go_through(link: Watched, fault: Fault, ground: Ground) -> float:
    """Cut it, wait until that is noticed, and mend it. Returns how long the notice took."""
    begun = time.monotonic()
    fault.cut(ground)
    link.until_not_live()
    noticed = time.monotonic() - begun
    time.sleep(max(0.0, fault.away - noticed))
    fault.mend(ground)
    return noticed


def tell(name: str, noticed: float | None, back: float) -> None:
    print(f"{name}: noticed after {'—' if noticed is None else f'{noticed:.1f}'} s, live again after {back:.1f} s")


def test_twenty_seconds_of_silence(profile: Profile, ground: Ground) -> None:
    """L04; and a link that was just being made notices it too, instead of waiting for each of its answers."""
    dropped: SimpleQueue[float] = SimpleQueue()

    def drop_midway(state: LinkState) -> None:
        if state.detail.startswith("logging in") and dropped.empty():
            line.drop()
            dropped.put(time.monotonic())

    with watched(profile) as link:
        late = Watched(profile, drop_midway)
        try:
            begun = dropped.get(timeout=BACK * PATIENCE)
            dropped.put(begun)
            link.until_not_live()
            noticed = time.monotonic() - begun
            late.until(LinkPhase.LOST, 20.0)
            given_up = time.monotonic() - begun
            time.sleep(max(0.0, begun + 20.0 - time.monotonic()))
        finally:
            line.mend()
        mended = time.monotonic()
        tell("silence", noticed, link.until_live())
        late.wait(lambda: late.events, BACK * PATIENCE)
        print(f"silence while it connects: given up after {given_up:.1f} s, live {time.monotonic() - mended:.1f} s")
        late.link.close()


def test_a_lossy_line(profile: Profile, ground: Ground) -> None:
    """Values go on, however late: one a second, for each of which something has changed there."""
    with watched(profile) as link:
        line.lose(30)
        try:
            begun, waits = len(link.states), []
            for mebibytes in range(2, 26, 2):
                ground.sh(f"head -c {mebibytes}M /dev/zero >/dev/shm/filling")
                waits.append(link.until_live(60.0))
            longest = max(waits)
            phases = {state.phase.value for state in link.states[begun:]}
        finally:
            line.mend()
            ground.sh("rm -f /dev/shm/filling")
        print(f"30 % loss: {phases or 'live'}; at most {longest:.1f} s without a value")
        tell("30 % loss", None, link.until_live())


def test_a_restarted_sshd_leaves_its_sessions_alone(profile: Profile, ground: Ground) -> None:
    with watched(profile) as link:
        ground.sh(f"systemctl restart ssh && {ANSWERS}")
        link.until_live()
        assert link.phases == [LinkPhase.CONNECTING, LinkPhase.LIVE]


def test_the_host_reboots() -> None:
    bed = Bed().up()
    try:
        with bed.laptop(), watched(profile_of(bed)) as link:
            begun = time.monotonic()
            bed.power_off()
            link.until_not_live()
            noticed = time.monotonic() - begun
            time.sleep(3.0)
            bed.power_on()
            tell("host rebooted", noticed, link.until_live())
    finally:
        bed.down()


def test_the_laptop_sleeps(bed: Bed, profile: Profile, ground: Ground) -> None:
    """Its console stands still; meanwhile the other end has given it up."""
    command = [sys.executable, "-m", "tests.bed.watching", str(bed.ssh_config)]
    console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for word in console.stdout or ():
            said.put(word.strip())

    reading = threading.Thread(target=read)
    reading.start()
    try:
        hear(said, "watch.shm")
        console.send_signal(signal.SIGSTOP)
        ground.kill_sessions()
        time.sleep(2.0)
        while not said.empty():  # of before
            said.get()
        console.send_signal(signal.SIGCONT)
        noticed = hear(said, "lost", NOTICED * PATIENCE)
        tell("laptop suspended", noticed, noticed + hear(said, "live") + hear(said, "watch.shm"))
    finally:
        console.kill()
        console.wait()
        reading.join()


def hear(said: SimpleQueue[str], word: str, seconds: float = BACK * PATIENCE) -> float:
    begun = time.monotonic()
    while said.get(timeout=seconds) != word:
        assert time.monotonic() - begun < seconds, f"no {word}"
    return time.monotonic() - begun


async def test_the_screen_says_so(profile: Profile, ground: Ground) -> None:
    app = HsConsoleApp(profile, Link)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "live, " in words(pilot))
        line.drop()
        try:
            begun = time.monotonic()
            await until(pilot, lambda: "no answer for" in words(pilot))
            noticed = time.monotonic() - begun
        finally:
            line.mend()
        begun = time.monotonic()
        await until(pilot, lambda: "live, " in words(pilot))
        back = time.monotonic() - begun
    tell("the screen, a short silence", noticed, back)
    assert noticed < NOTICED * PATIENCE
    assert back < BACK * PATIENCE


@dataclasses.dataclass
class Doing:
    """A recovery in a thread of its own."""

    steps: list[StepResult] = dataclasses.field(default_factory=list)
    ended: list[Any] = dataclasses.field(default_factory=list)

    def run(self, link: Link, profile: Profile) -> None:
        plan = recover.plan(link, profile)

        def work() -> None:
            try:
                self.ended.append(recover.run(link, profile, plan, self.steps.append))
            except Exception as error:
                self.ended.append(error)

        self._thread = threading.Thread(target=work)
        self._thread.start()

    def end(self) -> Any:
        self._thread.join(BACK * PATIENCE)
        return self.ended[0]


@pytest.mark.parametrize("name", ["session killed", "silence", "container stopped"])
def test_a_recovery_cut_off_midway_says_what_became_of_it(name: str, profile: Profile, ground: Ground) -> None:
    fault = FAULTS.get(name) or Fault(lambda _: line.drop(), lambda _: line.mend(), 12.0)
    pid = ground.hold("stubborn")
    with watched(profile) as link:
        doing = Doing()
        doing.run(link.link, profile)
        ground.wait_until_begun(ACTION)
        go_through(link, fault, ground)
        mended = time.monotonic()
        found = doing.end()
        print(f"recovery, {name}: known {time.monotonic() - mended:.1f} s after the line's return")
    assert fate.LOST in [step.title for step in doing.steps]
    assert not ground.exists(pid)
    if name == "container stopped":
        assert isinstance(found, CutOff), found
        assert ground.recorded(ACTION) == ["begin"]
    else:
        assert isinstance(found, Outcome), found
        assert found.ok, found
        assert ground.recorded(ACTION) == ["begin", "end"]
