"""The agent's start: `python agent-<sha256>.pyz --nonce N`, spoken to over stdin and stdout."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import signal
import socket
import sys
import time
from typing import BinaryIO

from remote import __version__, processes
from remote.wire import frames
from remote.wire.host import Hello


def main() -> None:
    if sys.argv[1:2] == ["--as-root"]:
        from remote import elevated

        _digest(sys.argv[0])
        elevated.answer(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="hsconsole agent")
    parser.add_argument("--nonce", required=True, help="said before the first frame; what came before it is noise")
    parser.add_argument("--note", action="append", default=[], help="for Hello.notes")
    options = parser.parse_args()
    digest = _digest(sys.argv[0])
    source, descriptor = _take_pipes()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of stdin ends the agent, in order

    from remote.agent.calls import CALLS, Context
    from remote.agent.loop import Loop
    from remote.agent.output import Output

    output = Output(descriptor)
    output.write(frames.hello(options.nonce, _hello(digest, tuple(options.note))))
    Loop(CALLS, Context, output).serve(source)
    sys.stderr.flush()
    os._exit(0)  # threads that wait for a file system that hangs are not waited for


def _digest(path: str) -> str:
    """The SHA-256 of the archive this runs from, "" outside of one. Exits when it is not the one its name says."""
    match = re.search(r"agent-([0-9a-f]{64})\.pyz$", path)
    if match is None:
        return ""
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    if digest != match[1]:
        sys.exit(f"{path} is damaged: its SHA-256 is {digest}")
    return digest


def _take_pipes() -> tuple[BinaryIO, int]:
    """stdin and stdout for frames alone: whatever else reads gets nothing, whatever else writes goes to stderr."""
    source = os.fdopen(os.dup(0), "rb")
    descriptor = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, descriptor


def _hello(digest: str, notes: tuple[str, ...]) -> Hello:
    return Hello(
        version=__version__,
        digest=digest,
        pid=os.getpid(),
        python=sys.executable,
        python_version=platform.python_version(),
        hostname=socket.gethostname(),
        user=processes.user_name(os.getuid()),
        now=time.time(),
        notes=notes,
    )


if __name__ == "__main__":
    main()
