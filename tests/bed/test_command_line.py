"""`hsconsole server recover` as it is typed at the laptop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
