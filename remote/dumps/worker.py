"""A process that verifies dumps for the agent: lists of names in on stdin, a result a line out on stdout.

A process and not a thread: the checks of a small dump are mostly Python, of which one runs at a time in a process.
Pipes and not multiprocessing: its semaphores need room in /dev/shm, which may be full of dumps.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Optional

import remote
from remote.wire.codec import decode, encode
from remote.wire.dumps import Level, VerifyResult
from remote.wire.errors import WireError

from .examine import examine
from .norms import Norms

_NICE = 10  # the server comes first
_START = "import sys; sys.path.insert(0, sys.argv[1]); from remote.dumps.worker import main; main()"


class Worker:
    """Raises OSError when no process can be started."""

    def __init__(self, dump_dir: str, level: Level, known: Optional[Norms]) -> None:
        root = os.path.dirname(os.path.abspath(remote.__path__[0]))  # a folder, or the agent's archive
        command = [sys.executable, "-c", _START, root]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._write({"dump_dir": dump_dir, "level": level.value, "norms": encode(known)})

    def verify(self, names: Sequence[str]) -> Iterator[VerifyResult]:
        """A result a name, in order; fewer when the process ends before, or another thread ends it."""
        self._write(list(names))
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for _ in names:
            try:
                line = self._process.stdout.readline()  # ValueError: closed by `end`
                result = decode(VerifyResult, json.loads(line)) if line.endswith(b"\n") else None
            except (ValueError, WireError):
                return
            if result is None:
                return
            yield result

    def end(self) -> None:
        """At once, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _write(self, value: object) -> None:
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError, ValueError):  # a dead process, or a closed pipe, shows when it is read from
            self._process.stdin.write(json.dumps(value).encode("ascii") + b"\n")
            self._process.stdin.flush()


def main() -> None:
    os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # where memory runs out, this process is to end and not the server
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for results alone
    serve(sys.stdin.buffer, output)


def serve(source: BinaryIO, output: BinaryIO) -> None:
    """Until the agent closes its end."""
    first = json.loads(source.readline())
    level = Level(first["level"])
    known = None if first["norms"] is None else decode(Norms, first["norms"])
    for line in source:
        for name in json.loads(line):
            result = encode(examine(first["dump_dir"], name, level, known))
            output.write(json.dumps(result).encode("ascii") + b"\n")
            output.flush()
