"""What a link says and answers, moment by moment, and the stage for it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from console.config.profile import Profile
from console.errors import HostKeyChanged, HostKeyUnknown
from console.link import LinkPhase
from console.tui.app import HsConsoleApp
from remote.wire.dumps import DumpCounts, DumpsChange, DumpState, Verified, VerifyProgress, VerifySummary
from remote.wire.patch import MarkedLine, PatchState
from remote.wire.plan import Check, Outcome, Plan
from remote.wire.server import LogLines
from remote.wire.telemetry import Gpu, GpuSnapshot, ShmOwner
from tests.ui.fake_link import FakeLink, FrozenClock
from tests.ui.scenes.basics import BAD, GIB, HOSTILE, LOG, NOW, PROFILE
from tests.ui.scenes.dumps import DETAIL, NO_DUMPS, TEST_STEPS, TESTED, many_dumps, rows
from tests.ui.scenes.machine import CLEAN, CLEAN_STEPS, CLEANED, LEFT_OVER, NO_GPU, SHM, gpus
from tests.ui.scenes.patch import APPLY, PATCH, UNPATCHED_SERVER
from tests.ui.scenes.proof import (
    CANARY_FAULTY,
    CANARY_STEPS,
    CANARY_UNKNOWN,
    CANARY_WELL,
    NOT_ALL_WELL,
    ODD,
    progress,
    summed,
    verified,
)
from tests.ui.scenes.server import (
    CRASHED,
    LOADING,
    LOG_LINES,
    ORPHANS,
    PREFLIGHT,
    PREFLIGHT_BAD,
    READY,
    START,
    STOP,
    STOP_STEPS,
    STOPPED,
    STOPPED_WELL,
)


@dataclasses.dataclass
class Stage:
    """An app on a fake link at a frozen moment. play: what the link does when it starts."""

    play: Callable[[FakeLink], None]
    profile: Profile = PROFILE
    hint: str = ""
    clock: FrozenClock = dataclasses.field(default_factory=FrozenClock)
    link: FakeLink | None = None

    def app(self) -> HsConsoleApp:
        def make(*args: Any) -> FakeLink:
            self.link = FakeLink(*args)
            self.link.on_start = self.play
            return self.link

        return HsConsoleApp(self.profile, make, self.hint, clock=self.clock)


def connecting(link: FakeLink) -> None:
    link.be(LinkPhase.CONNECTING, "connecting to root@ct129 …")


def _common(link: FakeLink) -> None:
    link.be(LinkPhase.LIVE)
    link.answers["patch.status"] = PATCH


def loading(link: FakeLink) -> None:
    _common(link)
    link.answers["patch.status"] = UNPATCHED_SERVER
    link.say(
        server=LOADING, gpus=gpus(8, busy=False), shm=dataclasses.replace(SHM, dumps=0, used=4 * GIB), dumps=NO_DUMPS
    )
    link.say(log=LogLines(LOG_LINES.lines[:3], LOG))


def ready(link: FakeLink, count: int = 8) -> None:
    _common(link)
    link.say(server=READY, gpus=gpus(count), shm=SHM, dumps=many_dumps(), log=LOG_LINES)


def stopped(link: FakeLink) -> None:
    _common(link)
    clean = dataclasses.replace(PATCH, state=PatchState.CLEAN, version=None, lines=(), summary="No marked lines.")
    link.answers["patch.status"] = clean
    link.say(server=STOPPED, gpus=gpus(8, busy=False), shm=dataclasses.replace(SHM, dumps=0, used=0, free=504 * GIB))
    link.say(dumps=NO_DUMPS)


def stopped_demo(link: FakeLink) -> None:
    """As a demo begins: no GPU, no dump folder yet."""
    stopped(link)
    folder = "/dev/shm/hsconsole-demo-16532"
    problem = f"{folder} is not there yet: SGLang makes it when it starts with SGLANG_HS_DUMP_DIR set"
    held = dataclasses.replace(SHM, path=folder, dumps=0, used=20 << 20, owners=(ShmOwner("SGLang", 6 << 20, 5),))
    link.say(gpus=NO_GPU, shm=held, dumps=dataclasses.replace(NO_DUMPS, problem=problem))


def one_lost_gpu(link: FakeLink) -> None:
    ready(link)
    link.say(gpus=gpus(8, lost=5))


def no_gpu(link: FakeLink) -> None:
    ready(link)
    link.say(gpus=NO_GPU)


def crashed(link: FakeLink) -> None:
    ready(link)
    link.say(server=CRASHED)


def orphans(link: FakeLink) -> None:
    ready(link)
    link.say(server=ORPHANS)


def refused(link: FakeLink) -> None:
    error = HostKeyChanged(
        "ct129 shows another ED25519 key than known_hosts has (line 12 of ~/.ssh/known_hosts)",
        "If the container was built anew: ssh-keygen -R ct129, then connect again. If not: someone is in between.",
    )
    link.be(LinkPhase.REFUSED, "host key changed", error=error)


def hostile(link: FakeLink) -> None:
    _common(link)
    dirty = dataclasses.replace(PATCH, summary=HOSTILE, notes=(HOSTILE,), version=HOSTILE, sglang_version=HOSTILE)
    link.answers["patch.status"] = dataclasses.replace(
        dirty, depths=tuple(Check(HOSTILE, BAD, HOSTILE, HOSTILE) for _ in range(4)), lines=(MarkedLine(1, HOSTILE),)
    )
    ten_mb = "x" * 10_000_000
    bad_rows = tuple(
        dataclasses.replace(row, rid=HOSTILE, note=HOSTILE, state=state)
        for row, state in zip(rows(6), DumpState, strict=True)
    )
    state = dataclasses.replace(CRASHED, cause=HOSTILE, detail=HOSTILE, sglang_version=HOSTILE, model_path=HOSTILE)
    link.say(
        server=dataclasses.replace(state, log_path=HOSTILE),
        gpus=GpuSnapshot(NOW, (Gpu(0, HOSTILE, 1, 2, 3, 4.0, 5), Gpu(1, problem=HOSTILE))),
        shm=dataclasses.replace(SHM, path=HOSTILE),
        dumps=DumpsChange(NOW, True, bad_rows, (), DumpCounts(1, 1, 4, (HOSTILE,), 1), HOSTILE),
        log=LogLines((HOSTILE, ten_mb, HOSTILE, "Ж" * 3000), HOSTILE, HOSTILE),
    )


def answering(link: FakeLink) -> None:
    """Ready, and every question has an answer."""
    ready(link)
    link.answers.update(
        {
            "server.preflight": PREFLIGHT,
            "plan server.start": START,
            "plan server.stop": STOP,
            "plan patch.apply": APPLY,
            "plan patch.revert": Plan("patch.revert", "Revert the patch", True, diff=APPLY.diff),
            "run server.stop": STOPPED_WELL,
            "run server.start": Outcome("server.start", True, "It loads: pid 48213."),
            "run patch.apply": Outcome("patch.apply", True, "Applied."),
            "dumps.test": TESTED,
            "dumps.show": DETAIL,
            "canary": CANARY_WELL,
            "dumps.verify": verify,
        }
    )
    link.steps.update({"run server.stop": list(STOP_STEPS), "dumps.test": list(TEST_STEPS)})
    link.steps.update({"canary": list(CANARY_STEPS), "dumps.verify": verifying})


def left_over(link: FakeLink) -> None:
    """A server that was killed left segments, another one runs."""
    answering(link)
    link.say(shm=LEFT_OVER)
    link.answers.update({"plan shm.clean": CLEAN, "run shm.clean": CLEANED})
    link.steps["run shm.clean"] = list(CLEAN_STEPS)


def verifying(args: dict[str, Any]) -> list[VerifyProgress]:
    """What a verification tells: of all, as they come; of one, its result."""
    if args["numbers"] is None:
        return [progress(640, 1286), progress(1286, 1286, 641)]
    return [VerifyProgress(tuple(ODD.get(number) or verified(number) for number in args["numbers"]), 1, 1)]


def verify(args: dict[str, Any]) -> VerifySummary:
    return NOT_ALL_WELL if args["numbers"] is None else summed((Verified.OK, 1))


def verifying_halfway(link: FakeLink) -> None:
    """A verification that goes on until it is cancelled."""
    answering(link)
    link.steps["dumps.verify"] = [progress(640, 1286)]

    def verify(_: dict[str, Any]) -> VerifySummary:
        while not (link.cancelled or link.closed.wait(0.01)):
            pass
        return summed((Verified.OK, 640), stopped=True)

    link.answers["dumps.verify"] = verify


def faulty_canary(link: FakeLink) -> None:
    answering(link)
    link.answers["canary"] = CANARY_FAULTY


def unknown_canary(link: FakeLink) -> None:
    answering(link)
    link.answers["canary"] = CANARY_UNKNOWN


def blocked(link: FakeLink) -> None:
    """A start that the preflight warns of."""
    answering(link)
    link.answers["server.preflight"] = PREFLIGHT_BAD


FINGERPRINT = "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDFSlzYpFpSNcYSTM8"


def stranger(link: FakeLink) -> None:
    """The link's thread asks whether to trust a host, and goes on by the answer."""

    def connect() -> None:
        link.be(LinkPhase.CONNECTING, "connecting to ct129")
        if link.ask_host_key("ct129", "ssh-ed25519", FINGERPRINT):
            ready(link)
        else:
            error = HostKeyUnknown(f"ct129 is not in known_hosts ({FINGERPRINT})", "Connect again and trust it.")
            link.be(LinkPhase.REFUSED, "host not known", error=error)
        link.connected.set()

    threading.Thread(target=connect, daemon=True).start()
