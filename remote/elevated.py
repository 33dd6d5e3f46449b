"""What only root may see or signal, done for another user by the agent run once more through sudo.

The request is a JSON object on stdin, the answer one on stdout. Nothing is asked that root's own look would not allow:
a signal goes to a pid only if its start time is the one named.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any, Optional

from remote import ports, processes
from remote.processes import Identity
from remote.wire.errors import ServerError

FLAG = "--as-root"
TIMEOUT = 15.0  # seconds


@dataclasses.dataclass(frozen=True)
class Opened:
    """A listening socket that root sees a process hold. dump_dir: of that process's environment."""

    inode: int
    pid: int
    thread: Optional[int]
    dump_dir: str


@functools.cache
def problem() -> str:
    """Why nothing can be done as root from here; empty when it can."""
    if os.geteuid() == 0:
        return ""
    sudo = shutil.which("sudo")
    if sudo is None:
        return "there is no sudo"
    if not sys.argv[0].endswith(".pyz"):
        return "only the packed agent runs itself through sudo"
    try:
        done = subprocess.run([sudo, "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sudo: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else said[-1] if said else "sudo refuses"


def opened(port: int, variable: str) -> list[Opened]:
    """Who holds the sockets that listen on `port`, as root sees it. Raises ServerError."""
    answer = _ask({"port": port, "variable": variable})
    return [Opened(int(i), int(pid), thread, str(folder)) for i, pid, thread, folder in answer["opened"]]


def send(identity: Identity, number: signal.Signals) -> bool:
    """As processes.send, for root. False when the process has ended. Raises ServerError."""
    request = {"pid": identity.pid, "start_ticks": identity.start_ticks, "signal": int(number)}
    return bool(_ask(request)["sent"])


def _ask(request: dict[str, Any]) -> Any:
    command = ["sudo", "-n", sys.executable, "-I", sys.argv[0], FLAG]
    try:
        done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, timeout=TIMEOUT)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"`{' '.join(command[:3])} …` failed: {error}", "Log in to the container as root.") from None


def answer() -> None:
    """Root's half: answer the request on stdin."""
    request = json.load(sys.stdin)
    if "port" in request:
        held = [holder for holder in ports.holders(int(request["port"])) if holder.process is not None]
        rows = []
        for holder in held:
            assert holder.process is not None  # noqa: S101 - just filtered
            folder = processes.environ(holder.process.pid).get(str(request["variable"]), "")
            rows.append([holder.listener.inode, holder.process.pid, holder.thread, folder])
        json.dump({"opened": rows}, sys.stdout)
        return
    identity = Identity(int(request["pid"]), int(request["start_ticks"]))
    json.dump({"sent": processes.send(identity, signal.Signals(int(request["signal"])))}, sys.stdout)
