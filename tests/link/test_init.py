"""`hsconsole init` and `doctor` from one end to the other: the real command, a real sshd, the real agent."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.config import load
from console.operations import init as init_operation
from remote.wire.host import Interpreter, Survey
from tests.link.sshd import SshConfig, Sshd

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The Python of an environment with a package that calls itself sglang."""
    folder = tmp_path / "engine"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "sglang").mkdir()
    (site / "sglang/__init__.py").write_text("")
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "sglang-0.5.9.dist-info/METADATA").write_text("Name: sglang\nVersion: 0.5.9\n")
    return str(folder / "bin/python3")


@pytest.fixture
def model(sshd: Sshd) -> str:
    """A folder in a usual place that looks like a model, beside one whose name is no text."""
    for name in (b"tiny", b"\xff\x9b31m"):
        folder = sshd.home / "models" / os.fsdecode(name)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"architectures": ["DeepseekV3ForCausalLM"]}')
    return f"{sshd.home}/models/tiny"


@pytest.fixture
def hsconsole(tmp_path: Path, sshd: Sshd, config: SshConfig) -> Run:
    config.host("ct129.example", sshd)
    environment = {**os.environ, "HSCONSOLE_CONFIG_DIR": str(tmp_path / "config"), "XDG_CACHE_HOME": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "console", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )

    return run


@pytest.fixture
def init(hsconsole: Run, config: SshConfig) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return hsconsole("init", "--host", "ct129.example", "--ssh-config", str(config.path), *arguments)

    return run


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_whole_way(
    init: Run, hsconsole: Run, python: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path / "config"))
    file = tmp_path / "config/profiles/ct129.toml"

    written = init("--python", python, "--model", model, "--json")
    assert written.returncode == 0
    made = document(written)
    assert (made["name"], made["file"], made["written"]) == ("ct129", str(file), True)
    assert file.read_text() == made["toml"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    profile = load.load("ct129")
    assert (profile.container.python, profile.server.model_path) == (python, model)

    again = init("--python", python, "--json")
    assert again.returncode == 3
    assert "exists already" in document(again)["error"]["what"]
    assert_shown(init("--python", python, "--model", "/models/other", "--dry-run"), python, model, file)
    assert file.read_text() == made["toml"]
    replaced = init("--python", python, "--model", "/models/other", "--force")
    assert replaced.returncode == 0
    assert "Next: hsconsole --profile ct129 doctor" in replaced.stdout
    assert load.load("ct129").server.model_path == "/models/other"
    assert_told_by_the_doctor(hsconsole)


def assert_shown(shown: subprocess.CompletedProcess[str], python: str, model: str, file: Path) -> None:
    """What was found there, and what would be written."""
    assert shown.returncode == 0
    assert f"{python}: Python 3." in shown.stdout
    assert "sglang 0.5.9" in shown.stdout
    assert f"model: {model}" in shown.stdout
    assert f"Would write {file}" in shown.stdout
    assert "only with --force" in shown.stdout
    assert not set(shown.stdout) & {"\x9b", "\x1b"}, "names are harmless"


def assert_told_by_the_doctor(hsconsole: Run) -> None:
    found = hsconsole("doctor", "--json")
    assert found.returncode == 1, "the model is not there"
    seen = document(found)
    verdicts = {check["name"]: check["verdict"] for check in seen["checks"]}
    assert (seen["profile"], seen["ok"]) == ("ct129", False)
    assert (verdicts["link"], verdicts["interpreter"], verdicts["model"]) == ("ok", "ok", "bad")
    told = hsconsole("doctor")
    assert told.returncode == 1
    assert "→ Set server.model_path." in told.stdout


def test_a_doctor_without_a_link_says_why_and_ends(init: Run, hsconsole: Run, python: str, sshd: Sshd) -> None:
    assert init("--python", python, "--model", "/m").returncode == 0
    sshd.stop()
    done = hsconsole("doctor", "--json")
    assert done.returncode == 1
    (link,) = [check for check in document(done)["checks"] if check["name"] == "link"]
    assert link["verdict"] == "bad"
    assert "connection refused" in link["found"]


WRONG = {
    "no such host": (["--host", "nowhere.invalid"], 4, "can't be resolved"),
    "no host at all": ([], 3, "no host was named"),
    "a shell in the host": (["--host", "a;b", "--name", "h"], 3, "ssh.host"),
    "an impossible name": (["--host", "h", "--name", "../x"], 3, "can't be a profile's name"),
    "half of Proxmox": (["--host", "h", "--proxmox", "pve"], 2, "--proxmox and --vmid"),
    "no such file": (["--host", "h", "--ssh-config", "/none"], 3, "/none"),
}


@pytest.mark.parametrize(("arguments", "status", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said(hsconsole: Run, arguments: list[str], status: int, says: str) -> None:
    done = hsconsole("init", *arguments, "--json")
    assert done.returncode == status
    error = document(done)["error"]
    assert says in error["what"]


@pytest.mark.parametrize(
    ("host", "name"),
    [("ct129", "ct129"), ("root@ct129.example.org", "ct129"), ("10.0.0.5", "10.0.0.5"), ("fe80::1", "fe80--1")],
)
def test_a_profile_is_named_for_its_host(host: str, name: str) -> None:
    assert init_operation.name_for(host) == name


def test_what_no_profile_can_name_is_not_taken() -> None:
    survey = Survey("h", (Interpreter("/p\x1b", "3.11", "0.5.9"), Interpreter("/q", "3.11", "0.5.9")), (), "", 0, 0,
                    models=("/\udcff", "/\x9b31m", "/fine"))  # fmt: skip
    profile = init_operation.build("h", init_operation.Answers("h"), survey)
    assert (profile.container.python, profile.server.model_path) == ("/q", "/fine")


def test_a_new_host_is_refused_with_its_fingerprint_when_nobody_is_asked(init: Run, config: SshConfig) -> None:
    config.known_hosts.write_text("")
    done = init("--json")
    assert done.returncode == 4
    assert "SHA256:" in document(done)["error"]["what"]
