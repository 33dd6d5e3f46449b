"""Start a process that outlives this agent and its channel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from remote import processes
from remote.interpreter import FOLDER
from remote.processes import Process
from remote.wire.errors import ServerError

TIMEOUT = 30.0  # seconds for the launcher, which only forks

# Runs in a Python of its own, because an agent has threads and must not fork. Its child leads a session of its own and
# belongs to init once the launcher has ended. The specification comes by stdin: arguments can be seen by others.
LAUNCHER = """
import json, os, subprocess, sys
spec = json.load(sys.stdin)
log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
try:
    child = subprocess.Popen(
        spec["argv"], env=spec["env"], cwd=spec["cwd"], start_new_session=True, close_fds=True,
        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )
except OSError as error:
    print(json.dumps({"problem": str(error)}))
else:
    print(json.dumps({"pid": child.pid}))
    sys.stdout.flush()
    os._exit(0)
"""


def detached(argv: Sequence[str], env: Mapping[str, str], log: str) -> Process:
    """Run `argv` with `env` added to this environment, its output appended to `log`. Raises ServerError."""
    spec = {"argv": list(argv), "env": {**os.environ, **env}, "cwd": FOLDER, "log": log}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", LAUNCHER],
            input=json.dumps(spec).encode(),
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"the launcher failed: {error}", "Is the container out of memory or processes?") from None
    if "problem" in answer:
        raise ServerError(
            f"{argv[0]} could not be run: {answer['problem']}", "Correct container.python in the profile."
        )
    process = processes.read(int(answer["pid"]))
    if process is None:
        raise ServerError(f"{argv[0]} ended at once", f"Its log is {log}.")
    return process
