"""The container's half of the log on the oldest and the newest Python at hand, and what an action costs by it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from remote.wire import chain
from tests.pythons import oldest_and_newest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, sys, time
from remote import audit
from remote.wire.codec import encode
from remote.wire.plan import Outcome, StepResult
from remote.wire.target import Target
target = Target("python3", "/m", env={"HF_TOKEN": "hf_secret"})

def work(emit):
    emit(StepResult("look", True, "hf_secret"))
    return Outcome("x", True, "done")

took = []
for _ in range(15):
    began = time.process_time()  # however slow the disk
    audit.record(target, "server.stop", None, lambda step: None, work)
    took.append(time.process_time() - began)
print(json.dumps({"took": sorted(took)[7], "report": encode(audit.verify()), "path": audit.path()}))
"""


@pytest.mark.parametrize("python", oldest_and_newest(), ids=str)
def test_it(python: Path, tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([python, "-c", PROGRAM], env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told["report"]["ok"]
    assert told["report"]["lines"] == 31
    assert chain.verify(told["path"]).ok
    assert "hf_secret" not in Path(told["path"]).read_text()
    assert told["took"] < 0.5, "it takes a few ms of the CPU"
