"""`hsconsole server recover` as it is typed at the laptop."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from console.config.profile import Profile
from console.config.write import render
from tests.bed.container import Ground


@pytest.fixture
def config(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "bed.toml").write_text(render(profile))
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def hsconsole(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console", "--profile", "bed", *words]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


def test_dry_run_then_for_real(config: Path, ground: Ground) -> None:
    ground.hold("orphans")
    shown = hsconsole("server", "recover", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "sglang::scheduler_TP0" in shown.stdout
    assert ground.is_held()
    unasked = hsconsole("server", "recover", "--json")
    assert unasked.returncode == 5, "nobody is there to confirm it"
    done = hsconsole("server", "recover", "--yes", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert document["outcome"]["ok"] is True
    assert any(step["command"].startswith("kill -KILL") for step in document["steps"])
    assert not ground.is_held()


def test_a_last_resort_takes_its_word(config: Path, ground: Ground) -> None:
    ground.hold("orphans")
    words = ("server", "recover", "--last-resort", "pythons")
    refused = hsconsole(*words, "--yes")
    assert refused.returncode == 5
    assert "--word 'kill every python'" in refused.stderr
    assert hsconsole(*words, "--yes", "--word", "kill all pythons").returncode == 5, "not that word"
    assert ground.is_held()
    assert hsconsole(*words, "--word", "kill every python").returncode == 0
    assert not ground.is_held()


def test_without_a_link_it_goes_through_the_host(config: Path, ground: Ground) -> None:
    ground.hold("orphans")
    ground.sh("systemctl stop ssh")
    done = hsconsole("server", "recover", "--yes")
    assert "going through the Proxmox host proxmox" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert not ground.is_held()


def test_a_stranger_is_named_with_what_to_do(config: Path, ground: Ground) -> None:
    pid = ground.hold("plain", module="ipykernel_launcher", ours=False)
    done = hsconsole("server", "recover", "--yes")
    assert done.returncode == 5
    assert f"hsconsole server recover --including {pid}" in done.stderr
    assert ground.exists(pid)


def audit(where: str) -> list[dict[str, Any]]:
    """The actions' lines of a log that is whole."""
    verified = hsconsole("audit", "verify", "--where", where, "--json")
    assert verified.returncode == 0, verified.stdout
    shown = json.loads(hsconsole("audit", "show", "--where", where, "--json").stdout)["entries"]
    return [entry for entry in shown if entry["id"]]


def commands(entry: dict[str, Any]) -> list[str]:
    return [step["command"] for step in entry["data"]["steps"] if step["command"]]


def test_both_audit_logs_tell_of_a_recovery(config: Path, ground: Ground) -> None:
    ground.hold("orphans")
    document = json.loads(hsconsole("server", "recover", "--yes", "--json").stdout)
    shown = [step["command"] for step in document["plan"]["steps"] if step["command"]]
    (begin, end), (begin_there, end_there) = audit("laptop"), audit("container")
    assert commands(begin) == begin_there["data"]["commands"] == shown
    assert commands(end) == commands(end_there) == shown
    assert {entry["id"] for entry in (begin, end, begin_there, end_there)} == {begin["id"]}
    assert (end["data"]["ok"], end_there["data"]["ok"]) == (True, True)
    assert hsconsole("audit", "show").stdout.count(f"$ {shown[-1]}\n") == 1, "planned and done alike: told once"


@pytest.mark.parametrize("way", ["link", "pct"])
def test_a_recovery_that_was_killed_is_told_by_the_other_log(config: Path, ground: Ground, way: str) -> None:
    """The laptop's does not know how it ended, and says so; the agent climbs its ladder to the end and records that."""
    pid = ground.hold("stubborn")
    if way == "pct":
        ground.sh("systemctl stop ssh")
    command = [sys.executable, "-m", "console", "--profile", "bed", "server", "recover", "--yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as killed:
        assert killed.stdout is not None
        assert any(line.startswith("✓ Ask them to end") for line in killed.stdout)
        killed.kill()
    ground.sh("systemctl start ssh")
    assert [entry["kind"] for entry in audit("laptop")] == ["begin"]
    assert "cut off midway, or still under way" in hsconsole("audit", "show").stdout
    deadline = time.monotonic() + 60
    while len(there := audit("container")) < 2:
        assert time.monotonic() < deadline
    assert (there[1]["kind"], there[1]["data"]["ok"]) == ("end", True)
    assert commands(there[1]) == [f"kill -TERM {pid}", f"kill -KILL {pid}"]
    assert not ground.exists(pid)
