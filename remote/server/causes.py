"""Why a server died, by what its log says: a table, whose first row that fits is the cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Cause(NamedTuple):
    """pattern: searched in the log's end. what: a sentence; `{}` is the pattern's first group. remedy: what to do."""

    id: str
    pattern: str
    what: str
    remedy: str


CAUSES = (
    Cause(
        "python",
        r"(\S*python\S*): No module named ['\"]?sglang",
        "the interpreter {} has no sglang",
        "Set container.python to SGLang's own; `hsconsole doctor` finds it.",
    ),
    Cause(
        "flag",
        r"error: (unrecognized arguments: [^\n]*|argument [^\n]*)",
        "SGLang refused its command line: {}",
        "Correct server.flags in the profile.",
    ),
    Cause(
        "port",
        r"\[Errno 98\]",
        "the port was held by another process when the load was over",
        "See who holds it with `hsconsole server preflight`, and end that first.",
    ),
    Cause(
        "shm",
        r"(No space left on device)|\[Errno 28\]|ENOSPC",
        "shared memory (or the disk of the log) is full: no space left on device",
        "Remove dumps that are done with, then start again; `hsconsole status` shows what holds /dev/shm.",
    ),
    Cause(
        "shm",
        r"exit(?:ed with)?(?: |_)?(?:code|status)?[ :=]*(-7)\b|Bus error|SIGBUS",
        "shared memory is full: a process was killed by SIGBUS (exit -7)",
        "Remove dumps that are done with, or give the container a larger /dev/shm.",
    ),
    Cause(
        "oom",
        r"(CUDA out of memory|OutOfMemoryError|Not enough memory\. Please try to increase)",
        "GPU memory is too small for the weights and the KV cache: {}",
        "See in the GPU panel who else uses it; lower --mem-fraction-static or --max-total-tokens, or raise tp.",
    ),
    Cause(
        "nccl",
        r"((?:NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|unhandled system error)[^\n]*)",
        "NCCL, the ranks' communication, failed: {}",
        "Start with NCCL_DEBUG=INFO in server.env to see more; on PCIe cards try --disable-custom-all-reduce.",
    ),
    Cause(
        "watchdog",
        r"(Watchdog caught collective operation timeout|watchdog timeout)",
        "a rank hung and the watchdog ended the server",
        "Look above that in the log for the rank that stopped first.",
    ),
)
LAST_ERROR = re.compile(r"^(?:\[[^\]]*\] )?((?:\w+\.)*\w*(?:Error|Exception|Exit)\b(?:: .*)?)$", re.MULTILINE)


def find(lines: Iterable[str]) -> str:
    """The cause in a sentence, with what to do, from the last lines of a log."""
    text = "\n".join(lines)
    for cause in CAUSES:
        match = re.search(cause.pattern, text)
        if match:
            groups = [group for group in match.groups() if group]
            return f"{cause.what.format(groups[0][:300] if groups else match.group(0)[:300])}. {cause.remedy}"
    errors = LAST_ERROR.findall(text)
    if errors:
        return f"its last error is: {errors[-1][:300]}"
    return "the log gives no reason: it was killed from outside (kill -9, or the kernel for want of memory)"
