"""A server in each of its phases, its log, and what is planned and done with it."""

from __future__ import annotations

from remote.wire.plan import Check, Outcome, Plan, Step, StepResult
from remote.wire.server import LoadProgress, LogLines, Phase, Preflight, ProcessInfo, ServerState
from tests.ui.scenes.basics import BAD, LOG, NOW, OK, UNKNOWN, WARN

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
