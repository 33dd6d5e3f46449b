"""Why a server died: each cause by what SGLang, torch, NCCL and the kernel write of it; none where nothing is wrong."""

from __future__ import annotations

import pytest

from remote.server import causes

DIED = "[2026-11-30 02:10:07] Received sigquit from a child process. It usually means the child failed."
TRACEBACK = [
    "[2026-11-30 02:10:02 TP1] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/root/sglang/python/sglang/srt/managers/scheduler.py", line 4100, in run_scheduler_process',
    "    scheduler = Scheduler(server_args, port_args, gpu_id)",
]
WELL = [
    "[2026-11-30 02:00:00] server_args=ServerArgs(model_path='/models/K', watchdog_timeout=300, dist_timeout=None)",
    "[2026-11-30 02:00:03] Ignore import error when loading sglang.srt.models.x: No module named 'cutlass'",
    "[2026-11-30 02:00:04] Watchdog TokenizerManager initialized.",
    "[2026-11-30 02:00:05 TP0] Init torch distributed ends. elapsed=1.2 s, mem usage=0.9 GB",
    "[2026-11-30 02:00:05 TP0] sglang is using nccl==2.27.5",
    "Loading safetensors checkpoint shards: 100% Completed | 163/163 [05:17<00:00,  1.94s/it]",
    "[2026-11-30 02:10:00 TP0] Memory pool end. avail mem=12.31 GB",
    "[2026-11-30 02:12:00] The server is fired up and ready to roll!",
    "hsconsole dumper: req_9 could not be dumped: [Errno 28] No space left on device",
    "[2026-11-30 02:12:09] Receive: obj=GenerateReqInput(text='why CUDA out of memory and exit code -7?')",
    "[2026-11-30 02:12:10 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
    "[2026-11-30 02:12:11 TP0] Prefill batch, #new-seq: 1, #new-token: 10, #cached-token: 0, token usage: 0.00",
]
KILLED = "kernel: Memory cgroup out of memory: Killed process 70211 (sglang::schedul) total-vm:90000kB, anon-rss:8000kB"

LOGS: list[tuple[str, list[str]]] = [
    ("python", ["/usr/bin/python3: No module named sglang.launch_server"]),
    ("python", ["/root/ml-env/bin/python3.11: No module named 'sglang'"]),
    ("flag", ["usage: launch_server.py [-h]", "launch_server.py: error: unrecognized arguments: --disable-radix"]),
    ("flag", ["launch_server.py: error: argument --tp-size: invalid int value: 'eight'"]),
    ("flag", ["launch_server.py: error: the following arguments are required: --model-path"]),
    ("port", ["[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"]),
    ("port", ["torch.distributed.DistNetworkError: failed to listen. port: 29500, code: -98, name: EADDRINUSE"]),
    ("shm", ["NCCL error: unhandled system error", "nccl: No space left on device"]),
    ("shm", [*TRACEBACK, "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'", DIED]),
    ("shm", ["RuntimeError: Rank 0 scheduler died during initialization (exit code: -7). If exit code is -9 …"]),
    ("shm", ["Child process unexpectedly failed with exitcode=-7. pid=12"]),
    (
        "shm",
        ["[02:10:02] Subprocess scheduler_3 (pid=77) crashed with exit code -7. Triggering SIGQUIT for cleanup..."],
    ),
    ("shm", ["[02:10:02] Scheduler or DataParallelController 77 terminated with -7"]),
    ("gpu_memory", [*TRACEBACK, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", DIED]),
    (
        "gpu_memory",
        [*TRACEBACK, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", DIED],
    ),
    ("driver", ["RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."]),
    ("driver", ["RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"]),
    ("driver", ["Failed to initialize NVML: Driver/library version mismatch"]),
    ("no_gpu", ["RuntimeError: No CUDA GPUs are available"]),
    ("no_gpu", ["RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"]),
    ("arch", [*TRACEBACK, "RuntimeError: CUDA error: no kernel image is available for execution on the device", DIED]),
    (
        "arch",
        ["NVIDIA RTX PRO 6000 with CUDA capability sm_120 is not compatible with the current PyTorch installation."],
    ),
    ("arch", ["nvcc fatal   : Unsupported gpu architecture 'compute_120a'"]),
    ("arch", ["ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'"]),
    ("gpu_failed", [*TRACEBACK, "RuntimeError: CUDA error: uncorrectable ECC error encountered", DIED]),
    ("kernel_fault", [*TRACEBACK, "RuntimeError: CUDA error: an illegal memory access was encountered", DIED]),
    ("weights", [*TRACEBACK, "safetensors_rust.SafetensorError: Error while deserializing header: header too large"]),
    ("weights", [*TRACEBACK, "RuntimeError: PytorchStreamReader failed reading zip archive: no central directory"]),
    ("weights", [*TRACEBACK, 'FileNotFoundError: No such file or directory: "/m/model-00003-of-00163.safetensors"']),
    ("weights", ["OSError: /models/K does not appear to have a file named config.json. Checkout 'https://…'"]),
    ("weights", [*TRACEBACK, "RuntimeError: Cannot find any model weights with `/models/K`"]),
    ("hub", ["OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them"]),
    ("hub", ["Cannot find the requested files in the disk cache and outgoing traffic has been disabled."]),
    ("remote_code", ["ValueError: The repository /m contains custom code which must be executed to load the model."]),
    ("architecture", ["ValueError: Model architectures ['K25'] are not supported for now. Supported: [...]"]),
    ("permission", ["PermissionError: [Errno 13] Permission denied: '/models/K/config.json'"]),
    ("memory", ["[2026-11-30 02:10:02] MemoryError"]),
    ("memory", ["RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 99 bytes."]),
    ("limits", ["RuntimeError: can't start new thread"]),
    (
        "watchdog",
        ["[rank3]:[E] [PG 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1) ran for 600000 ms"],
    ),
    ("watchdog", ["[02:10:02 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", DIED]),
    ("killed", ["Subprocess scheduler_3 (pid=77) crashed with exit code -9. Triggering SIGQUIT for cleanup...", DIED]),
    ("crashed", ["Subprocess scheduler_3 (pid=77) crashed with exit code -11. Triggering SIGQUIT for cleanup..."]),
    ("nccl", [*TRACEBACK, "RuntimeError: NCCL error: unhandled cuda error, NCCL version 2.27.5", DIED]),
    ("import", ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'flashinfer'"]),
    ("import", ["ImportError: libnuma.so.1: cannot open shared object file: No such file or directory"]),
    ("ended", ["[02:10:02] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."]),
    ("ended", ["Traceback (most recent call last):", "KeyboardInterrupt"]),
    ("error", ["[2026-11-30 02:10:02] ValueError: bad [/foo] {}"]),
]
TRACES: list[tuple[str, list[str], list[str]]] = [
    ("shm", [], ["exit -7"]),
    ("killed_for_memory", [], ["exit -9", "oom_kill 1"]),
    (
        "killed_for_memory",
        ["Subprocess scheduler_0 (pid=7) crashed with exit code -9", DIED],
        ["exit -9", "oom_kill 2"],
    ),
    ("killed_for_memory", [], ["exit -9", "oom_kill unknown", KILLED]),
    ("killed_for_memory", [], ["exit unknown", KILLED]),
    ("killed", [], ["exit -9", "oom_kill 0"]),
    (
        "gpu_failed",
        [],
        ["exit -6", "oom_kill 0", "kernel: NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus."],
    ),
    ("crashed", [], ["exit -11", "oom_kill 0"]),
    ("ended", [], ["exit -15", "oom_kill 0"]),
    ("ended", [], ["exit 0", "oom_kill 0"]),
    ("unknown", [], ["exit 3", "oom_kill 0"]),
    ("unknown", [], ["exit unknown"]),
    # another's trouble is not this server's cause
    ("ended", [], ["exit -15", "oom_kill 1", KILLED]),
    ("error", ["ValueError: x", DIED], ["exit -9", "oom_kill 1"]),
    ("killed", [], ["exit -9", "oom_kill 0", "kernel: Out of memory: Killed process 5 (mysqld) total-vm:1kB"]),
]


@pytest.mark.parametrize(("cause", "lines"), LOGS, ids=[f"{cause}-{n}" for n, (cause, _) in enumerate(LOGS)])
def test_each_cause_is_found_in_the_log_behind_a_good_start(cause: str, lines: list[str]) -> None:
    death = causes.find([*WELL, *lines], ["exit 1", "oom_kill 0"])
    assert death.id == cause
    assert death.remedy
    assert "{}" not in death.what or "{}" in lines[-1]


@pytest.mark.parametrize(("cause", "lines", "traces"), TRACES)
def test_each_cause_is_found_in_how_it_ended(cause: str, lines: list[str], traces: list[str]) -> None:
    death = causes.find([*WELL, *lines], traces)
    assert (death.id, bool(death.remedy)) == (cause, True)


@pytest.mark.parametrize("count", range(1, len(WELL) + 1))
def test_a_good_log_has_no_cause(count: int) -> None:
    assert causes.find(WELL[:count]).id == "unknown"


def test_every_row_of_the_table_is_needed_by_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    table = causes.CAUSES
    cases = [*((lines, []) for _, lines in LOGS), *((lines, traces) for _, lines, traces in TRACES)]
    found = [causes.find(*case) for case in cases]
    for row in table:
        monkeypatch.setattr(causes, "CAUSES", tuple(other for other in table if other is not row))
        assert any(causes.find(*case) != before for case, before in zip(cases, found, strict=True)), row.id


def test_what_the_log_said_is_told() -> None:
    assert causes.find(["/usr/bin/python3: No module named sglang"]).what == (
        "Wrong Python: the interpreter /usr/bin/python3 has no sglang"
    )
    assert causes.find(["ValueError: bad [/foo] {}"]).what == "its last error is: ValueError: bad [/foo] {}"
    assert "{x}" in causes.find(["ModuleNotFoundError: No module named '{x}'"]).what
