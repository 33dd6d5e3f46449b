"""Why a server died: a table, whose first row that fits what was left behind is the cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

LOG, TRACE = "log", "trace"  # where a row's pattern is looked for: the log's end; how it ended, and the kernel's words


class Cause(NamedTuple):
    """pattern: its first group takes the place of `{}` in `meaning`. unless: not the cause when the log says this."""

    id: str
    where: str
    pattern: str
    title: str
    meaning: str
    remedy: str
    unless: str = ""


class Death(NamedTuple):
    """A cause in words. remedy: what to do, may be empty."""

    id: str
    what: str
    remedy: str


# What SGLang's parent writes when it ends itself, by SIGKILL, because a child of it failed.
ENDED_ITSELF = r"[Rr]eceived sigquit|SIGQUIT received|Triggering SIGQUIT"
CHILD = r"(?:exit ?code|terminated with|exited with|status)[ :=]*"  # of a rank, in every release's words
# What is told first causes what follows it in the log: NCCL's complaints come last, for a rank's death makes them too.
CAUSES = (
    Cause(
        "python",
        LOG,
        r"^(\S{0,200}python[\w.]{0,20}): No module named ['\"]?sglang",
        "Wrong Python",
        "the interpreter {} has no sglang",
        "Set container.python to SGLang's own; `hsconsole doctor` finds it.",
    ),
    Cause(
        "flag",
        LOG,
        r"error: ((?:unrecognized arguments: |argument |the following arguments |ambiguous option)[^\n]*)",
        "SGLang refused its command line",
        "{}",
        "Correct server.flags in the profile.",
    ),
    Cause(
        "port",
        LOG,
        r"\[Errno 98\]|EADDRINUSE|[Aa]ddress already in use",
        "The port was held",
        "another process listened there when the load was over",
        "See who holds it with `hsconsole server preflight`, and end that first.",
    ),
    Cause(
        "shm",
        LOG,
        r"No space left on device|\[Errno 28\]|ENOSPC",
        "No space left on device",
        "shared memory, or the disk that was written to, is full",
        "Remove dumps that are done with, then start again; `hsconsole status` shows what holds /dev/shm.",
    ),
    Cause(
        "shm",
        LOG,
        CHILD + r"-7\b|[Bb]us error|SIGBUS",
        "Shared memory is full",
        "a process was killed by SIGBUS (exit -7), as happens when a page of /dev/shm can't be had",
        "Remove dumps that are done with, or give the container a larger /dev/shm.",
    ),
    Cause(
        "shm",
        TRACE,
        r"^exit -7$",
        "Shared memory is full",
        "the server was killed by SIGBUS (exit -7), as happens when a page of /dev/shm can't be had",
        "Remove dumps that are done with, or give the container a larger /dev/shm.",
    ),
    Cause(
        "gpu_memory",
        LOG,
        r"(CUDA out of memory[^\n]*|OutOfMemoryError[^\n]*|Not enough memory\. Please try to increase[^\n]*|"
        r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|ncclUnhandledCudaError: [^\n]{0,200}out of memory)",
        "GPU memory is too small",
        "the weights, the KV cache and what else uses the GPU don't fit: {}",
        "See in the GPU panel who else uses it; lower --mem-fraction-static or --max-total-tokens, or raise tp.",
    ),
    Cause(
        "driver",
        LOG,
        r"(CUDA driver version is insufficient[^\n]*|NVIDIA driver on your system is too old[^\n]*|"
        r"Driver/library version mismatch|forward compatibility was attempted[^\n]*|"
        r"unsupported display driver / cuda driver[^\n]*|provided PTX was compiled with an unsupported toolchain)",
        "The driver does not fit",
        "SGLang's CUDA and the NVIDIA driver of the host don't go together: {}",
        "Update the driver on the Proxmox host and the same version of its libraries in the container, or install "
        "an SGLang built for the older CUDA.",
    ),
    Cause(
        "no_gpu",
        LOG,
        r"(Found no NVIDIA driver[^\n]*|No CUDA GPUs are available|no CUDA-capable device is detected|"
        r"CUDA error: invalid device ordinal|No accelerator \([^\n]*)",
        "No GPU was seen",
        "{}",
        "Look at the GPU panel and at CUDA_VISIBLE_DEVICES; the container needs /dev/nvidia* of its host.",
    ),
    Cause(
        "arch",
        LOG,
        r"(no kernel image is available[^\n]*|sm_\w+ is not compatible with the current PyTorch[^\n]*|"
        r"[Uu]nsupported gpu architecture[^\n]*|Value 'sm_\w+' is not defined|CUDA error: invalid device function)",
        "Not built for this GPU",
        "a kernel of this SGLang or PyTorch has no code for the GPU's architecture: {}",
        "Install the build for this GPU (Blackwell, sm120, needs CUDA 12.8 or later), or choose another "
        "--attention-backend and --moe-runner-backend.",
    ),
    Cause(
        "gpu_failed",
        LOG,
        r"(uncorrectable ECC error[^\n]*|GPU is lost[^\n]*|fallen off the bus[^\n]*|unspecified launch failure)",
        "A GPU failed",
        "{}",
        "Look for Xid in the Proxmox host's `dmesg`; reset that GPU or reboot the host before the next start.",
    ),
    Cause(
        "kernel_fault",
        LOG,
        r"(illegal memory access was encountered|device-side assert triggered|misaligned address)",
        "A CUDA kernel crashed",
        "{}",
        "Start with CUDA_LAUNCH_BLOCKING=1 in server.env to see which; try another --attention-backend.",
    ),
    Cause(
        "weights",
        LOG,
        r"(Error while deserializing header[^\n]*|SafetensorError[^\n]*|PytorchStreamReader failed[^\n]*|"
        r"unexpected EOF, expected [^\n]*|The file might be corrupted|checksum mismatch[^\n]*)",
        "The weights are damaged",
        "{}",
        "`hsconsole server preflight` names the files that are not whole: download those again.",
    ),
    Cause(
        "weights",
        LOG,
        r"(does not appear to have a file named [^\n]{0,200}|Cannot find any model weights[^\n]*|"
        r"no file named (?:pytorch_model|model)[^\n]*|No such file or directory: [^\n]{0,300}"
        r"\.(?:safetensors|bin|json|gguf|model)\b[^\n]{0,3}|Could not find checkpoint files[^\n]*)",
        "The weights are not all there",
        "{}",
        "Complete the download, or correct server.model_path; `hsconsole server preflight` names what is missing.",
    ),
    Cause(
        "hub",
        LOG,
        r"(We couldn't connect to 'https?://[^\n]*|outgoing traffic has been disabled[^\n]*|LocalEntryNotFoundError|"
        r"OfflineModeIsEnabled[^\n]*|Repository Not Found for url[^\n]*|GatedRepoError[^\n]*|"
        r"not a valid model identifier[^\n]*)",
        "The model is not here",
        "SGLang wanted it from the Hugging Face hub and did not get it: {}",
        "Set server.model_path to the folder of the model on the container.",
    ),
    Cause(
        "remote_code",
        LOG,
        r"(contains custom code which must be executed|execute the configuration file in that repo)",
        "The model brings code of its own",
        "it {}, which was not allowed",
        "Add --trust-remote-code to server.flags, if you trust that code.",
    ),
    Cause(
        "architecture",
        LOG,
        r"(Model architectures? [^\n]{0,200} (?:is|are) not supported[^\n]*|does not recognize this architecture)",
        "This SGLang does not know the model",
        "{}",
        "Use a release that does; the profile's container.python says which one starts.",
    ),
    Cause(
        "permission",
        LOG,
        r"((?:PermissionError: )?\[Errno 13\] Permission denied[^\n]*)",
        "A file may not be used",
        "{}",
        "Give the server's user the right to it, or name another place in the profile.",
    ),
    Cause(
        "memory",
        LOG,
        r"((?:^|\] )MemoryError\b|\[Errno 12\] Cannot allocate memory|DefaultCPUAllocator: can't allocate[^\n]*|"
        r"std::bad_alloc)",
        "Memory is too small",
        "the container's memory (not the GPU's) was used up: {}",
        "Dumps in /dev/shm count as memory: remove those that are done with, or give the container more.",
    ),
    Cause(
        "limits",
        LOG,
        r"(\[Errno 24\] Too many open files|can't start new thread|\[Errno 11\] Resource temporarily unavailable|"
        r"failed to create thread[^\n]*)",
        "A limit of the container was reached",
        "{}",
        "Raise it: `ulimit -n` for files, the container's pids limit for threads.",
    ),
    Cause(
        "killed_for_memory",
        TRACE,
        r"^(?:rank -9|exit -9|exit unknown)\n(?:.*\n)*"
        r"kernel: (?:Memory cgroup o|O)ut of memory: (Kill(?:ed)? process \d+ \((?:python|sglang|pt_)[^\n]{0,120})",
        "Killed for want of memory",
        "the kernel ended it: {}",
        "Dumps in /dev/shm count as memory: remove those that are done with, or give the container more.",
    ),
    Cause(
        "killed_for_memory",
        TRACE,
        r"^rank -9\n(?:.*\n)*oom_kill ([1-9]\d*)$",
        "Killed for want of memory",
        "a rank was killed by signal 9, and the kernel ended {} processes of its control group for memory meanwhile",
        "Dumps in /dev/shm count as memory: remove those that are done with, or give the container more.",
    ),
    Cause(
        "killed_for_memory",
        TRACE,
        r"^exit -9\n(?:.*\n)*oom_kill ([1-9]\d*)$",
        "Killed for want of memory",
        "killed by signal 9, and the kernel ended {} processes of its control group for memory meanwhile",
        "Dumps in /dev/shm count as memory: remove those that are done with, or give the container more.",
        ENDED_ITSELF,
    ),
    Cause(
        "gpu_failed",
        TRACE,
        r"^kernel: NVRM: (Xid [^\n]{0,200})",
        "A GPU failed",
        "the driver reported {}",
        "Look that Xid up in NVIDIA's table; reset that GPU or reboot the host before the next start.",
    ),
    Cause(
        "watchdog",
        LOG,
        r"(Watchdog caught collective operation timeout|[Ww]atchdog timeout(?![^\n]{0,200}soft=True))",
        "A rank hung",
        "the watchdog ended the server: {}",
        "Look above that in the log for the rank that stopped first; --watchdog-timeout is its patience.",
    ),
    Cause(
        "killed",
        TRACE,
        r"^rank -9$",
        "A rank was killed from outside",
        "by signal 9: kill -9, or the kernel for want of memory, which can't be seen from here",
        "Look for 'Killed process' in `dmesg -T` on the Proxmox host.",
    ),
    Cause(
        "crashed",
        LOG,
        CHILD + r"(-(?:11|6|4|8))\b",
        "A rank crashed",
        "in native code, exit {} (-11 SIGSEGV, -6 abort, -4 illegal instruction)",
        "Look above that in the log for the last kernel or library that was named.",
    ),
    Cause(
        "nccl",
        LOG,
        r"((?:NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError|"
        r"unhandled system error)[^\n]*)",
        "NCCL, the ranks' communication, failed",
        "{}",
        "Start with NCCL_DEBUG=INFO in server.env to see more; on PCIe cards try --disable-custom-all-reduce.",
    ),
    Cause(
        "import",
        LOG,
        r"^(?:\[[^\]\n]{0,80}\] )?((?:ModuleNotFoundError|ImportError): [^\n]*)",
        "A package can't be imported",
        "{}",
        "Install it into SGLang's environment, in the version that this release names.",
    ),
    Cause(
        "ended",
        LOG,
        r"(SIGTERM received|KeyboardInterrupt|[Rr]eceived signal (?:15|2)\b)",
        "Ended by somebody",
        "it was asked to: {}. Not by hsconsole, which would have noted it",
        "Ask who else works here; the audit log (`hsconsole audit show`) tells hsconsole's own actions.",
        ENDED_ITSELF,
    ),
    Cause(
        "ended",
        TRACE,
        r"^exit (-15|-2|-1|143|130|129)$",
        "Ended by somebody",
        "by signal (exit {}: -15 TERM, -2 Ctrl-C, -1 hang-up). Not by hsconsole, which would have noted it",
        "Ask who else works here; the audit log (`hsconsole audit show`) tells hsconsole's own actions.",
    ),
    Cause(
        "killed",
        TRACE,
        r"^exit -9$",
        "Killed from outside",
        "by signal 9: kill -9 by somebody, or the kernel for want of memory, which can't be seen from here",
        "Look for 'Killed process' in `dmesg -T` on the Proxmox host.",
        ENDED_ITSELF,
    ),
    Cause(
        "crashed",
        TRACE,
        r"^exit (-(?:11|6|4|8))$",
        "It crashed",
        "in native code, exit {} (-11 SIGSEGV, -6 abort, -4 illegal instruction)",
        "Look in the log for the last kernel or library that was named.",
    ),
)
LAST_ERROR = re.compile(r"^(?:\[[^\]\n]{0,80}\] )?((?:\w+\.)*\w*(?:Error|Exception|Exit)\b(?:: .*)?)$", re.MULTILINE)
RANK = re.compile(CHILD + r"(-\d+)\b")
# Told by others than SGLang: the dumper, whose troubles end no server, and what SGLang says of requests' texts.
NOT_ITS_OWN = re.compile(r"^hsconsole |Receive: obj=|Finish: obj=|^\[[^\]]{0,60}\] hsconsole starts: ")


def find(lines: Sequence[str], traces: Sequence[str] = ()) -> Death:
    """The cause, from a log's last lines and from traces: `exit -9` or `exit unknown`, `oom_kill 1`, `kernel: …`."""
    log = "\n".join(line for line in lines if not NOT_ITS_OWN.search(line))
    texts = {LOG: log, TRACE: "\n".join([*(f"rank {code}" for code in RANK.findall(log)), *traces])}
    for cause in CAUSES:
        match = re.search(cause.pattern, texts[cause.where], re.MULTILINE)
        if match and not (cause.unless and re.search(cause.unless, log)):
            seen = next((group for group in match.groups() if group), match.group(0))
            return Death(cause.id, f"{cause.title}: {cause.meaning.format(seen[:300])}", cause.remedy)
    return _unknown(log, traces)


def _unknown(log: str, traces: Sequence[str]) -> Death:
    how = next((trace for trace in traces if trace.startswith("exit ") and trace != "exit unknown"), "")
    errors = LAST_ERROR.findall(log)
    if errors:
        return Death("error", f"its last error is: {errors[-1][:300]}", "Look above that in the log: key l.")
    if how == "exit 0":
        return Death("ended", "it ended by itself, without an error (exit 0)", "Look at the end of its log: key l.")
    if how:
        return Death("unknown", f"the log gives no reason; it ended with {how}", "Look at the end of its log: key l.")
    killed = "the log gives no reason: it was killed from outside (kill -9, or the kernel for want of memory)"
    return Death("unknown", killed, "Look for 'Killed process' in `dmesg -T` on the Proxmox host.")
