"""The packed agent by itself, on every Python at hand: no ssh, the frames over pipes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.ssh import pack
from remote.agent import loop
from remote.agent.output import Output
from tests.link.conftest import packed

FOUND = [
    *Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"),
    Path(sys.executable),
    Path("/usr/bin/python3"),
]


def usable(python: Path) -> bool:
    check = [str(python), "-c", "import sys; sys.exit(sys.version_info < (3, 9))"]
    return python.exists() and subprocess.run(check, check=False).returncode == 0


PYTHONS = sorted({str(python) for python in FOUND if usable(python)})


class Agent:
    def __init__(self, archive: Path, python: str = sys.executable) -> None:
        self.process = subprocess.Popen(
            [python, str(archive), "--nonce", "abc", "--note", "a note"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline().removeprefix(b"abc "))

    def ask(self, number: int, call: str, **args: Any) -> Any:
        self.say(json.dumps({"id": number, "call": call, "args": args}).encode())
        return self.hear()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / packed().name
    path.write_bytes(packed().data)
    return path


@pytest.fixture
def agent(archive: Path) -> Iterator[Agent]:
    made = Agent(archive)
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.mark.parametrize("python", PYTHONS)
def test_on_every_python(archive: Path, python: str) -> None:
    agent = Agent(archive, python)
    hello = agent.hear()["hello"]
    assert (hello["digest"], hello["notes"]) == (packed().digest, ["a note"])
    assert agent.ask(1, "echo", value=[1])["ok"] == [1]
    agent.process.communicate(timeout=60)
    assert agent.process.returncode == 0


@pytest.mark.parametrize("python", PYTHONS)
def test_the_real_agent_starts_on_every_python(tmp_path: Path, python: str) -> None:
    real = tmp_path / pack.pack().name
    real.write_bytes(pack.pack().data)
    agent = Agent(real, python)
    agent.hear()
    assert "now" in agent.ask(1, "ping")["ok"]
    agent.process.communicate(timeout=60)


def test_the_end_of_stdin_ends_it_promptly_with_its_streams(agent: Agent) -> None:
    agent.hear()
    agent.ask(1, "watch.ticks", pause=0.05)
    began = time.monotonic()
    agent.process.communicate(timeout=60)
    assert agent.process.returncode == 0
    assert time.monotonic() - began < loop.GRACE, "which is for what is under way"


def test_nobody_to_read_ends_it(agent: Agent) -> None:
    agent.hear()
    agent.ask(1, "watch.ticks", pause=0.05)
    assert agent.process.stdout is not None
    agent.process.stdout.close()
    agent.process.wait(60)


def test_what_is_under_way_ends_when_nobody_reads_any_more(agent: Agent, tmp_path: Path) -> None:
    agent.hear()
    agent.say(json.dumps({"id": 1, "call": "once", "args": {"path": str(tmp_path / "ran")}}).encode())
    agent.say(b'{"id": 2, "call": "watch.ticks", "args": {"pause": 0.01}}')
    agent.hear()
    assert agent.process.stdout is not None
    agent.process.stdout.close()
    agent.process.wait(60)
    assert (tmp_path / "ran").read_text() == "begun\nended\n"


def test_an_action_under_way_has_the_time_it_needs(agent: Agent, tmp_path: Path) -> None:
    """Longer than other calls get: a stop that waits for a server which ignores TERM still ends with KILL."""
    agent.hear()
    paths = {name: tmp_path / name for name in loop.ACTIONS}
    for number, (name, path) in enumerate(paths.items()):
        args = {"path": str(path), "seconds": loop.GRACE + 1}
        agent.say(json.dumps({"id": number, "call": name, "args": args}).encode())
    while not all(path.exists() for path in paths.values()):
        time.sleep(0.01)
    agent.process.communicate(timeout=60)  # closes its stdin
    assert {path.read_text() for path in paths.values()} == {"begun\nended\n"}


def test_calls_that_hang_hold_up_no_action(agent: Agent, tmp_path: Path) -> None:
    """As on a dead NFS mount: whoever asked has given up, and asks again."""
    agent.hear()
    for number in range(40):
        agent.say(json.dumps({"id": number, "call": "until_cancelled", "args": {}}).encode())
    agent.say(json.dumps({"id": 99, "call": "run", "args": {"path": str(tmp_path / "ran"), "seconds": 0}}).encode())
    last = next(frame for frame in iter(agent.hear, None) if frame["id"] == 99 and "event" not in frame)
    assert "ok" in last
    assert (tmp_path / "ran").read_text() == "begun\nended\n"


def test_a_container_that_has_no_thread_left_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of that call, and not by an agent that ends."""

    def start(thread: threading.Thread) -> None:
        if thread.name != "silence":
            raise RuntimeError("can't start new thread")

    asked = b'{"id": 1, "call": "echo", "args": {}}\n{"id": 2, "call": "ping", "args": {}}\n'
    answers, output = os.pipe()
    with os.fdopen(answers) as heard:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            loop.Loop({"ping": lambda _: 1}, lambda *_: None, Output(output)).serve(io.BytesIO(asked))
        os.close(output)
        first, second = map(json.loads, heard)
    assert (first["id"], first["error"]["what"]) == (1, "echo could not begin: can't start new thread")
    assert "limit" in first["error"]["remedy"]
    assert second == {"id": 2, "ok": 1}


def test_a_hangup_does_not(agent: Agent) -> None:
    agent.hear()
    agent.process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    assert agent.ask(1, "echo", value=1)["ok"] == 1


NO_FRAMES = [
    b"garbage",
    b"[]",
    b"{}",
    b'{"id": "x"}',
    b'{"id": [], "cancel": true}',
    b'{"id": 1, "call": 5, "args": {}}',
    b'{"id": 1, "call": "echo", "args": 3}',
    b"\xff\xfe",
]


@pytest.mark.parametrize("line", NO_FRAMES)
def test_what_is_no_frame_is_ignored(agent: Agent, line: bytes) -> None:
    agent.hear()
    agent.say(line)
    assert agent.ask(2, "echo", value=1) == {"id": 2, "ok": 1}


def test_wrong_arguments_are_the_calls_error(agent: Agent) -> None:
    agent.hear()
    assert agent.ask(1, "echo", nonsense=1)["error"]["id"] == "agent.fault"
    assert agent.ask(2, "open", target={"python": 5})["error"]["id"] == "link.wire"


def test_a_damaged_archive_does_not_start(archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("more", "x")
    agent = Agent(archive)
    out, err = agent.process.communicate(timeout=60)
    assert out == b""
    assert b"is damaged" in err


def test_the_archive_depends_on_the_sources_alone() -> None:
    sources = pack.sources()
    once, again = pack.build(sources), pack.build(dict(reversed(list(sources.items()))))
    assert again == once
    assert again.name == f"agent-{again.digest}.pyz"


def test_the_archive_has_the_agent_and_nothing_else() -> None:
    names = set(pack.sources())
    assert {"remote/__main__.py", "remote/agent/loop.py", "remote/dumper/__init__.py", "remote/wire/frames.py"} <= names
    assert all(name.endswith(".py") and name.startswith("remote/") for name in names)


def test_it_is_packed_from_a_wheel_as_from_a_checkout(tmp_path: Path) -> None:
    site, sources = tmp_path / "site", pack.sources()
    for name, data in sources.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
    (site / "remote/__pycache__").mkdir()
    (site / "remote/__pycache__/x.py").write_text("")
    (site / "console").symlink_to(Path(pack.__file__).parent.parent)
    code = "from console.ssh.pack import pack; print(pack().digest)"
    done = subprocess.run([sys.executable, "-c", code], cwd=site, capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(site)})  # fmt: skip
    assert done.stdout.strip() == pack.build(sources).digest
