"""The server half on the oldest and the newest Python at hand, with their standard library alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.pythons import oldest_and_newest

ROOT = Path(__file__).parents[3]
SMOKE = """
import json, os, socket, sys, threading
from remote import ports, processes, survey
from remote.server import command, launch, log, preflight, record, state, stop
from remote.telemetry import gpus, shm
from remote.wire.codec import decode, encode
from remote.wire.server import Phase, Preflight, ServerState
from remote.wire.target import Target

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
target = Target(sys.executable, "/no/model", "127.0.0.1", port, flags=("--a=1",), dump_dir=sys.argv[1])
mine = processes.read(os.getpid())
assert mine and processes.alive(mine.identity) and not processes.is_sglang(mine)
assert processes.send(mine.identity, 0) is True
seen = state.read(target)
assert seen.phase is Phase.STOPPED and decode(ServerState, encode(seen)) == seen
with socket.create_server(("127.0.0.1", port)):
    assert state.read(target).phase is Phase.PORT_HELD
report = preflight.examine(target)
assert not report.ok and decode(Preflight, json.loads(json.dumps(encode(report)))) == report
assert not stop.plan(target).needed
assert log.tail(target, 5).note and shm.read(target.dump_dir).size
gpus.read()
cancelled, events = threading.Event(), []
follower = threading.Thread(target=log.follow, args=(target, 5, events.append, cancelled))
follower.start()
open(record.log_path(port), "w").write("x\\n")
while not any(event.lines for event in events):
    cancelled.wait(0.05)
cancelled.set()
follower.join()
with record.lock(port, "is testing"):
    pass
print("fine on", sys.version.split()[0])
"""


@pytest.mark.parametrize("python", oldest_and_newest(), ids=str)
def test_remote_runs_there(python: Path, tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python), "-W", "error", "-c", SMOKE, str(tmp_path / "dumps")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "fine on" in done.stdout
