"""What only root may see or signal, done for another user by the agent run once more through sudo.

The request is the end of the command line, so that sudo's own log tells what was done; the answer is JSON on stdout.
Nothing is asked that root's own look would not allow: a signal goes to a pid only if its start time is the one named.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Optional

from remote import ports, processes
from remote.processes import Identity
from remote.wire.errors import ServerError
from remote.wire.signals import marked

FLAG = "--as-root"
TIMEOUT = 15.0  # seconds
ASK_TIMEOUT = 6.0  # for whether it may at all


@dataclasses.dataclass(frozen=True)
class Opened:
    """A listening socket that root sees a process hold. dump_dir: of that process's environment."""

    inode: int
    pid: int
    thread: Optional[int]
    dump_dir: str


def problem() -> str:
    """Why nothing can be done as root from here; empty when it can. Asked anew each time: sudoers may be mended."""
    if os.geteuid() == 0:
        return ""
    sudo = shutil.which("sudo")
    if sudo is None:
        return "there is no sudo"
    if not sys.argv[0].endswith(".pyz"):
        return "only the packed agent runs itself through sudo"
    try:
        done = subprocess.run([sudo, "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"sudo gives no answer in {ASK_TIMEOUT:.0f} s"
    except OSError as error:
        return f"sudo: {error}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else said[-1] if said else "sudo refuses"


def command(*request: str) -> list[str]:
    return ["sudo", "-n", sys.executable, "-I", sys.argv[0], FLAG, *request]


def signal_request(name: str, identities: Sequence[Identity]) -> list[str]:
    return ["signal", name, *marked(identities)]


def opened(port: int, variable: str) -> list[Opened]:
    """Who holds the sockets that listen on `port`, as root sees it. Raises ServerError."""
    rows = _ask("opened", str(port), variable)
    return [Opened(int(i), int(pid), thread, str(folder)) for i, pid, thread, folder in rows]


def send(identities: Sequence[Identity], name: str) -> list[int]:
    """As processes.send, for root; the pids that were reached, the others have ended. Raises ServerError."""
    return [int(pid) for pid in _ask(*signal_request(name, identities))]


def _ask(*request: str) -> Any:
    words = command(*request)
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
        return json.loads(done.stdout)["answer"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"`{' '.join(words[:3])} …` failed: {error}", "Log in to the container as root.") from None


def answer(request: Sequence[str]) -> None:
    """Root's half: answer what stands behind FLAG."""
    kind, first, *rest = request
    found = _opened(int(first), rest[0]) if kind == "opened" else _signalled(first, rest)
    json.dump({"answer": found}, sys.stdout)


def _opened(port: int, variable: str) -> list[Any]:
    rows: list[Any] = []
    for holder in ports.holders(port):
        if holder.process is not None:
            folder = processes.environ(holder.process.pid).get(variable, "")
            rows.append([holder.listener.inode, holder.process.pid, holder.thread, folder])
    return rows


def _signalled(name: str, words: Sequence[str]) -> list[int]:
    identities = [Identity(*map(int, word.split(":"))) for word in words]
    number = signal.Signals[f"SIG{name}"]
    return [identity.pid for identity in identities if processes.send(identity, number)]
