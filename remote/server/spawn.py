"""Start a process that outlives this agent and its channel, and keep how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from remote.interpreter import FOLDER
from remote.processes import Identity
from remote.server import kernel
from remote.wire.errors import ServerError

TIMEOUT = 30.0  # seconds for the launcher, which only forks
RUN = "import json, sys; spec = json.load(sys.stdin); exec(spec['launcher'])"

# Runs in a Python of its own, because an agent has threads and must not fork. It leaves a process behind, in a session
# of its own and a child of init, that waits for the server and writes how it ended: nobody else is ever told.
# The specification comes by stdin: arguments can be seen by others.
LAUNCHER = """
import os, subprocess, time
if os.fork():
    os._exit(0)
os.setsid()
def kills():
    try:
        with open(spec["oom_counter"]) as counter:
            return next(int(line.split()[1]) for line in counter if line.startswith("oom_kill "))
    except (OSError, TypeError, StopIteration):
        return None
before = kills()
log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
try:
    child = subprocess.Popen(
        spec["argv"], env=spec["env"], cwd=spec["cwd"], start_new_session=True, close_fds=True,
        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )
except OSError as error:
    print(json.dumps({"problem": str(error)}))
    sys.stdout.flush()
    os._exit(0)
with open(f"/proc/{child.pid}/stat", "rb") as stat:
    ticks = int(stat.read().rpartition(b")")[2].split()[19])
print(json.dumps({"pid": child.pid, "start_ticks": ticks}))
sys.stdout.flush()
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2, log):
    os.dup2(nothing, number)
os.chdir("/")
status, after = child.wait(), kills()
ended = {"pid": child.pid, "start_ticks": ticks, "status": status, "at": time.time(),
         "oom_kills": None if None in (before, after) else after - before}
aside = spec["exit"] + ".new"
with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
    json.dump(ended, file)
os.replace(aside, spec["exit"])
"""


def detached(argv: Sequence[str], env: Mapping[str, str], log: str, exit_path: str) -> Identity:
    """Run `argv` with `env` added to this environment, its output appended to `log`. Raises ServerError.

    exit_path: where an `exits.Exit` is written, as JSON, once it has ended.
    """
    spec = {
        "launcher": LAUNCHER,
        "argv": list(argv),
        "env": {**os.environ, **env},
        "cwd": FOLDER,
        "log": log,
        "exit": exit_path,
        "oom_counter": kernel.oom_counter(os.getpid()),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", RUN, "hsconsole waits for a server, to tell how it ends"],
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
    return Identity(int(answer["pid"]), int(answer["start_ticks"]))
