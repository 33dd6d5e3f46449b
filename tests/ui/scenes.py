"""Moments of a console's life, as values the container would send."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from console.config.profile import Container, Dump, Profile, Proxmox, Server
from console.errors import HostKeyChanged, HostKeyUnknown
from console.link import LinkPhase
from console.tui.app import HsConsoleApp
from remote.wire.dumps import DumpCounts, DumpDetail, DumpFile, DumpRow, DumpsChange, DumpState, DumpTest
from remote.wire.patch import MarkedLine, PatchState, PatchStatus
from remote.wire.plan import Check, Outcome, Plan, Step, StepResult, Verdict
from remote.wire.server import LoadProgress, LogLines, Phase, Preflight, ProcessInfo, ServerState
from remote.wire.telemetry import Gpu, GpuSnapshot, ShmSnapshot
from tests.ui.fake_link import FakeLink, FrozenClock

NOW = 1_800_000_000.0
GIB = 1024**3
LOG = "/root/.local/state/hsconsole/server-8000.log"
HOSTILE = "read [/dev/shm] failed [/foo] \x1b[31mred\x1b[0m \x1b]0;title\x07 nul\x00 \udcff\u202e [@click=app.quit]x[/]"

PROFILE = Profile(
    name="kimi",
    container=Container(host="ct129", python="/root/ml-env/bin/python3", user="root"),
    server=Server(model_path="/models/Kimi-K2.5", tp=8),
    dump=Dump(),
    proxmox=Proxmox(host="pve1", vmid=129),
)
READ_ONLY = Profile(
    name="kimi", container=PROFILE.container, server=PROFILE.server, proxmox=PROFILE.proxmox, read_only=True
)
DEMO = Profile(
    name="demo",
    container=Container(host="127.0.0.1", python="/root/.cache/hsconsole/demo/bin/python", user="root", port=2222),
    server=Server(model_path="/root/.cache/hsconsole/demo/dsv3", port=30000),
    stood_in=("no Proxmox host", "no GPU"),
)

OK, WARN, BAD, UNKNOWN = Verdict.OK, Verdict.WARN, Verdict.BAD, Verdict.UNKNOWN

PATCH = PatchStatus(
    state=PatchState.APPLIED,
    python="/root/ml-env/bin/python3",
    summary="6 marked lines, as version 3 writes them; the running server loaded them.",
    sglang_version="0.5.9",
    model_file="/root/sglang/python/sglang/srt/models/deepseek_v2.py",
    family="deepseek 0.4.0-0.5.9",
    version="3",
    file_sha256="9f2c4e0b6a1d8e77c35f90ab12cd34ef56ab78cd90ef12ab34cd56ef78ab90cd",
    original_sha256="1b7de0c2a93f44d5886e7f10293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c",
    lines=(
        MarkedLine(26, "# hsconsole: begin"),
        MarkedLine(27, "_hs_dump = _hs_load()  # _HS_DUMP"),
        MarkedLine(28, "# hsconsole: end"),
        MarkedLine(2691, "_hs_request = _hs_dump and _hs_dump.begin(self, forward_batch)"),
        MarkedLine(2702, "if _hs_request: _hs_request.capture(i, hidden_states + residual)"),
        MarkedLine(2731, "if _hs_request: _hs_request.finish(hidden_states)"),
    ),
    depths=(
        Check("text", OK, "6 marked lines"),
        Check("hash", OK, "the file is as version 3 wrote it"),
        Check("imported", OK, "/root/ml-env/bin/python3 imports this file"),
        Check("loaded", OK, "pid 48213 loaded version 3, layers 3, 31, 59"),
    ),
)
UNPATCHED_SERVER = dataclasses.replace(
    PATCH,
    depths=(
        *PATCH.depths[:3],
        Check("loaded", WARN, "the server runs unpatched code", "Stop the server and start it again."),
    ),
)


def gpus(count: int, *, lost: int | None = None, busy: bool = True) -> GpuSnapshot:
    rows = []
    for index in range(count):
        if index == lost:
            rows.append(Gpu(index, problem="Unable to determine the device handle: Unknown Error"))
            continue
        rows.append(
            Gpu(
                index,
                "NVIDIA RTX PRO 6000",
                int((83.1 + index * 0.2 if busy else 0.6) * GIB),
                int(95.6 * GIB),
                97 - index if busy else 0,
                412.0 - 3 * index if busy else 32.0,
                71 - index if index != 5 else 88,
                1,
            )
        )
    return GpuSnapshot(NOW, tuple(rows))


NO_GPU = GpuSnapshot(NOW, (), "no NVIDIA library in this container: GPUs can't be read", "")
SHM = ShmSnapshot(NOW, "/dev/shm", 504 * GIB, 252 * GIB, 252 * GIB, 480 * GIB, 212 * GIB)
STOPPED = ServerState(Phase.STOPPED, "no process, port 8000 free", NOW, 8000)
LOADING = ServerState(
    Phase.LOADING,
    "loading weights",
    NOW,
    8000,
    pid=48213,
    age=132.0,
    sglang_version="0.5.9",
    model_path="/models/Kimi-K2.5",
    load=LoadProgress("loading shards", 34.0, 55, 163, 250.0),
    log_path=LOG,
)
READY = ServerState(
    Phase.READY,
    "ready",
    NOW,
    8000,
    pid=48213,
    age=8047.0,
    sglang_version="0.5.9",
    model_path="/models/Kimi-K2.5",
    health_status=200,
    health_ms=9.0,
    running=4,
    queued=12,
    prefill_tokens_per_s=7312.0,
    log_path=LOG,
    patch_loaded="3",
)
CRASHED = ServerState(
    Phase.CRASHED,
    "pid 48213 is gone",
    NOW,
    8000,
    sglang_version="0.5.9",
    log_path=LOG,
    cause="Shared memory is full: exit -7 during NCCL set-up, 96 % of /dev/shm used",
)
ORPHANS = ServerState(
    Phase.ORPHANS,
    "2 processes of a server whose parent is gone",
    NOW,
    8000,
    processes=(
        ProcessInfo(48301, 9, "sglang::scheduler_TP0", "root", ours=True),
        ProcessInfo(48302, 9, "sglang::scheduler_TP1", "root", ours=True),
    ),
)

LOG_LINES = LogLines(
    (
        "[2026-11-30 18:38:01] server_args=ServerArgs(model_path='/models/Kimi-K2.5', tp_size=8)",
        "[2026-11-30 18:38:12 TP0] Load weight begin. avail mem=94.12 GB",
        "[2026-11-30 18:38:40 TP3] WARNING: attention backend not set, using triton",
        "[2026-11-30 18:40:31] The server is fired up and ready to roll!",
        "[2026-11-30 18:40:33 TP0] Prefill batch, #new-seq: 1, #new-token: 10, #cached-token: 0, token usage: 0.00",
        "[2026-11-30 18:40:34 TP0] Prefill batch, #new-seq: 4, #new-token: 8192, #cached-token: 0, token usage: 0.04",
        "[2026-11-30 18:40:35 TP0] Prefill batch, #new-seq: 3, #new-token: 7311, #cached-token: 0, token usage: 0.07",
    ),
    LOG,
)


def rows(count: int, first: int = 1) -> tuple[DumpRow, ...]:
    made = []
    for number in range(first, first + count):
        tokens = 300 + (number * 2357) % 7893
        made.append(
            DumpRow(
                number,
                DumpState.COMPLETE,
                NOW - (first + count - number) * 0.4,
                tokens,
                tokens * 7168 * 2 * 4 + 6000,
                (3, 31, 59),
                f"s-{number:06}",
            )
        )
    return tuple(made)


def many_dumps(count: int = 1286) -> DumpsChange:
    made = list(rows(count))
    made[-1] = dataclasses.replace(made[-1], state=DumpState.WRITING, at=NOW)
    made[-2] = dataclasses.replace(made[-2], state=DumpState.WRITING, at=NOW)
    made[-5] = dataclasses.replace(made[-5], state=DumpState.CORRUPT, note="aux_2.pt: NaN in row 7")
    made[-9] = dataclasses.replace(
        made[-9], state=DumpState.ERROR, note="no room in /dev/shm: 470 MB wanted, 61 MB left"
    )
    made[-12] = dataclasses.replace(
        made[-12], state=DumpState.PARTIAL, at=NOW - 340, note="no done, nothing changed for 5 min"
    )
    counts = DumpCounts(count - 5, 2, 3, requests_per_s=3.1, tokens_per_s=7312.0, bytes_per_s=418e6)
    return DumpsChange(NOW, True, tuple(made), (), counts)


NO_DUMPS = DumpsChange(NOW, True, (), (), DumpCounts())


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
    stopped(link)
    link.say(gpus=NO_GPU)


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


PREFLIGHT = Preflight(
    (
        Check("interpreter", OK, "/root/ml-env/bin/python3 has sglang 0.5.9"),
        Check("patch", OK, "applied, version 3"),
        Check("port 8000", OK, "free, by a bind test on 0.0.0.0 and [::]"),
        Check("/dev/shm", WARN, "61 GB of 541 GB left", "Take the dumps away before a long run."),
        Check("GPUs", OK, "8 free"),
        Check("model", OK, "/models/Kimi-K2.5, 163 shards"),
        Check("flags", UNKNOWN, "--enable-mixed-chunk is not known to 0.5.9"),
    )
)
PREFLIGHT_BAD = Preflight(
    (
        Check(
            "interpreter",
            BAD,
            "/usr/bin/python3: No module named sglang.launch_server",
            "/root/ml-env/bin/python3 has sglang 0.5.9: set container.python to it.",
        ),
        Check("port 8000", BAD, "held by pid 991, jupyter-lab, user ana", "Not ours: ask ana, or choose another port."),
        *PREFLIGHT.checks[3:],
    )
)
START = Plan(
    "server.start",
    "Start the server",
    needed=True,
    steps=(
        Step("look again: port, patch, room"),
        Step(
            "launch SGLang, detached",
            "setsid -f env SGLANG_HS_DUMP_DIR=/dev/shm/sglang_hs SGLANG_HS_DUMP_LAYERS=3,31,59 /root/ml-env/bin/python3"
            " -m sglang.launch_server --model-path /models/Kimi-K2.5 --tp 8 --port 8000 --disable-cuda-graph"
            " --disable-radix-cache --api-key ***",
        ),
        Step("keep its pid and start time"),
    ),
    notes=("The load takes about 12 minutes; it goes on when this console leaves.",),
)
STOP = Plan(
    "server.stop",
    "Stop the server",
    needed=True,
    steps=(
        Step("ask pid 48213 to end", "kill -TERM 48213"),
        Step("end its process group after 30 s", "kill -TERM -- -48213"),
        Step("kill what is left", "kill -KILL 48213 48301 48302"),
    ),
    losses=("4 running and 12 queued requests are lost.", "A new start loads for about 12 minutes."),
    basis={"pid": 48213, "start_ticks": 9},
)
NOT_NEEDED = Plan("server.stop", "Stop the server", needed=False, notes=("No process, and port 8000 is free.",))
APPLY = Plan(
    "patch.apply",
    "Apply the patch, version 3",
    needed=True,
    steps=(
        Step("keep the original", "cp deepseek_v2.py ~/.local/state/hsconsole/originals/1b7de0c2"),
        Step("write deepseek_v2.py whole"),
        Step("copy the dumper beside sglang"),
    ),
    diff="""--- deepseek_v2.py
+++ deepseek_v2.py
@@ -23,6 +23,9 @@
 import torch
 import torch.nn.functional as F
+# hsconsole: begin
+_hs_dump = _hs_load()  # _HS_DUMP
+# hsconsole: end
 from torch import nn
-x = 1
 from transformers import PretrainedConfig
""",
)
STOP_STEPS = (
    StepResult("ask pid 48213 to end", True, "it ended", 3.2),
    StepResult("end its process group after 30 s", True, "nothing left to end", 0.0),
    StepResult("kill what is left", True, "nothing left to kill", 0.0),
)
STOPPED_WELL = Outcome(
    "server.stop",
    True,
    "The server is gone.",
    (
        Check("processes", OK, "none of the server's"),
        Check("port 8000", OK, "free, by a bind test"),
        Check("GPU memory", OK, "back at its baseline of 0.6 GiB"),
    ),
)
STOPPED_BADLY = Outcome(
    "server.stop",
    False,
    "The server is not gone.",
    (
        Check("processes", OK, "none of the server's"),
        Check("port 8000", BAD, "held by pid 991", "Look at who that is: hsconsole server status"),
    ),
)
TEST_STEPS = (
    StepResult("send ids 1…10", True, "HTTP 200", 0.2),
    StepResult("wait for the dump", True, "req_1287", 0.4),
    StepResult("check it", True, "", 0.1),
)
TESTED = DumpTest(
    True,
    "hsc-test-7f3a",
    0.7,
    1287,
    (
        Check("tokens", OK, "10 of 10"),
        Check("hidden size", OK, "7168"),
        Check("layers", OK, "3, 31, 59"),
        Check("files", OK, "5 files, 143,360 bytes of payload each"),
        Check("values", OK, "finite, not constant"),
    ),
)
DETAIL = DumpDetail(
    DumpRow(1282, DumpState.CORRUPT, NOW - 130, 10, 579_980, (3, 31, 59), "s-001282", "aux_2.pt: NaN in row 7"),
    "/dev/shm/sglang_hs/req_1282",
    {
        "num_tokens": 10,
        "hidden_size": 7168,
        "num_aux_layers": 3,
        "captured_at_layers": [3, 31, 59],
        "counter": 1282,
        "timestamp": 1771958433.3917341,
        "schema": 3,
        "rid": "s-001282",
        "dtype": "bfloat16",
        "files": {},
        "sglang_version": "0.5.9",
        "tp_rank": 0,
        "tp_size": 8,
    },
    (
        DumpFile("aux_0.pt", 144_859, 143_360, 143_360, "bfloat16", (10, 7168)),
        DumpFile("aux_1.pt", 144_859, 143_360, 143_360, "bfloat16", (10, 7168)),
        DumpFile("aux_2.pt", 144_859, 143_360, 143_360, "bfloat16", (10, 7168), "NaN in row 7"),
        DumpFile("final.pt", 72_430, 71_680, 143_360, "bfloat16", (10, 7168)),
        DumpFile("input_ids.pt", 1_300, 80, 80, "int64", (10,)),
    ),
    (
        Check("tokens", OK, "10 rows, 10 ids"),
        Check("files", BAD, "final.pt holds 71,680 bytes of 143,360", "The file is cut: this request can't be used."),
        Check("finite", BAD, "aux_2.pt: NaN in row 7"),
        Check("layers", OK, "3, 31, 59"),
    ),
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
        }
    )
    link.steps.update({"run server.stop": list(STOP_STEPS), "dumps.test": list(TEST_STEPS)})


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
