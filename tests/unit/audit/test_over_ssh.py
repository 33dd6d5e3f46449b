"""The commands as an operator types them, over a real sshd with the real agent: both logs tell of the same action."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.config import write
from console.config.profile import Container, Profile, Server
from remote.wire import chain
from tests.link.sshd import SshConfig, Sshd, free_port
from tests.living import PATIENCE

ROOT = Path(__file__).parents[3]
HOLDS = """
import os, sys, time
from remote import audit
from remote.wire.target import Target
def work(emit):
    print("begun", flush=True)
    time.sleep(60)
audit.record(Target("p", "/m"), "server.stop", None, print, work)
"""


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profile]:
    for variable in ("HSCONSOLE_STATE_DIR", "HSCONSOLE_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    sshd, config = Sshd(tmp_path / "ct").start(), SshConfig(tmp_path / "ssh")
    config.host("ct", sshd)
    made = Profile(
        name="kimi",
        container=Container(host="ct", python=sys.executable, ssh_config=str(config.path)),
        server=Server(model_path="/m", host="127.0.0.1", port=free_port(), env={"HF_TOKEN": "hf_verysecret"}),
    )
    write.write(made)
    yield made
    sshd.stop()


def hsconsole(*words: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "console", "--profile", "kimi", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    return done.returncode, json.loads(done.stdout)


def test_both_logs_tell_of_it(profile: Profile, tmp_path: Path) -> None:
    status, answer = hsconsole("dumps", "test")  # nothing listens there
    assert status == 7
    there = {where: hsconsole("audit", "show", "--where", where)[1]["entries"] for where in ("laptop", "container")}
    for entries in there.values():
        assert [(one["kind"], one["action"]) for one in entries[1:]] == [("begin", "dumps.test"), ("end", "dumps.test")]
        assert entries[2]["data"]["error"]["what"] == answer["error"]["what"]
    assert {one["id"] for entries in there.values() for one in entries[1:]} == {there["laptop"][1]["id"]}
    assert there["container"][1]["who"].endswith("from 127.0.0.1")
    assert there["container"][1]["data"]["operator"] == there["laptop"][1]["who"]
    for where in ("laptop", "container"):
        status, report = hsconsole("audit", "verify", "--where", where)
        assert (status, report["ok"], report["lines"]) == (0, True, 3)
    log = tmp_path / "ct" / "home" / ".local" / "state" / "hsconsole" / "audit.jsonl"
    assert log.stat().st_mode & 0o777 == 0o600
    log.write_bytes(log.read_bytes().replace(b"127.0.0.1", b"127.0.0.9"))
    status, report = hsconsole("audit", "verify", "--where", "container")
    assert (status, report["misfit"]["line"]) == (1, 3)


def test_an_agent_killed_midway_leaves_a_begin_without_an_end(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    agent = subprocess.Popen([sys.executable, "-c", HOLDS], cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"begun\n"
    agent.send_signal(signal.SIGKILL)
    agent.wait(PATIENCE)
    agent.stdout.close()
    log = str(tmp_path / "hsconsole" / "audit.jsonl")
    assert [one.kind for one in chain.last(log, 10).entries] == ["genesis", "begin"]
    assert chain.verify(log).ok
