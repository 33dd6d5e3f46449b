"""/dev/shm of a real LXC container, 64 MiB: who holds it, and what dead processes left there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from console.config.profile import Profile
from console.config.write import render
from tests.bed.container import Ground

HOLDER = """
import os, time
file = open('/dev/shm/nccl-Held01', 'wb')
file.write(bytes(2 << 20))
file.flush()
pid = os.fork()
if pid:
    print(pid)
else:
    os.setsid()
    for end in range(3):
        os.close(end)
    time.sleep(300)
"""
# With the packed agent that the console put there; a minute of quiet is too long for a test.
CLEAN = """
import glob, json, os, sys, time
sys.path.insert(0, max(glob.glob('/root/.cache/hsconsole/agent-*.pyz'), key=os.path.getmtime))
from remote.telemetry import clean, stale
stale.QUIET, stale.SLACK = 0.0, 0.1
plan, steps = clean.plan(None), []
outcome = clean.clean(None, plan.basis, steps.append)
print(json.dumps({'doubt': stale.outside(), 'plan': [step.command for step in plan.steps], 'notes': plan.notes,
                  'steps': [[step.title, step.ok] for step in steps], 'ok': outcome.ok}))
"""


@pytest.fixture
def config(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "bed.toml").write_text(render(profile))
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))


def hsconsole(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console", "--profile", "bed", *words]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


@pytest.mark.usefixtures("config")
def test_segments_are_told_by_owner_and_only_dead_ones_are_removed(ground: Ground) -> None:
    ground.sh("head -c 8388608 /dev/zero >/dev/shm/psm_0123abcd; sleep 0.3")
    ground.sh("mkdir -p /dev/shm/sglang_hs/req_0; head -c 4194304 /dev/zero >/dev/shm/sglang_hs/req_0/aux_0.pt")
    pid = int(ground.sh("python3 -", HOLDER))
    try:
        seen = json.loads(hsconsole("shm", "show", "--json").stdout)
        assert [(owner["name"], owner["bytes"]) for owner in seen["owners"]] == [("Python", 8 << 20), ("NCCL", 2 << 20)]
        assert (seen["size"], seen["dumps"], seen["used"]) == (64 << 20, 4 << 20, 14 << 20)
        assert (seen["stale"], seen["doubt"]) == (0, ""), "a minute has not passed; nobody shares it unseen"
        done = json.loads(ground.sh("python3 -", CLEAN))
        assert done["doubt"] == ""
        assert done["plan"] == ["unlink /dev/shm/psm_0123abcd"]
        assert f"nccl-Held01, pid {pid} has it open" in done["notes"][0]
        assert done["ok"]
        left = ground.sh("ls /dev/shm").split()
        assert "psm_0123abcd" not in left
        assert {"nccl-Held01", "sglang_hs"} <= set(left)
        nothing = hsconsole("shm", "clean", "--yes")
        assert nothing.returncode == 0
        assert "Nothing in /dev/shm is known to be a dead process's" in nothing.stdout
    finally:
        ground.sh(f"kill {pid}; rm -rf /dev/shm/nccl-Held01 /dev/shm/psm_0123abcd /dev/shm/sglang_hs")
