"""The canary and the level of meaning on a real server: right dumps pass, each kind of wrong is caught by its name."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.client import AgentClient
from console.demo.stage import Stage
from console.operations import calls
from remote.canary import ask, canary, replay
from remote.dumps.dump import Dump
from remote.wire.dumps import Canary, Level, Verified, VerifyProgress, VerifyResult
from remote.wire.plan import StepResult, Verdict
from remote.wire.target import Target
from tests import dumpfaults
from tests.dumpfaults import FAULTS, Fault
from tests.engine.server import product

NAMES = (
    "prompt", "another prompt", "the same again", "its beginning", "final against logprobs", "order of layers",
    "prefix", "repeat", "ranks", "log against dumps",
)  # fmt: skip


class Running:
    """A server that dumps. target: as its agent knows it, with the same place for its records. started: its start."""

    def __init__(self, agent: AgentClient, stage: Stage, started: subprocess.CompletedProcess[str]) -> None:
        self.agent = agent
        self.started = started
        self.profile = stage.profile
        self.target: Target = stage.profile.target
        self.folder = Path(stage.profile.dump.folder)

    def canary(self) -> Canary:
        """In this process, so that a test can stand between the dumper and the canary."""
        return canary.run(self.target, lambda _: None)


@pytest.fixture(scope="module")
def running(stage: Stage) -> Iterator[Running]:
    state = str(stage.config_folder.parent / "container" / "state")
    with pytest.MonkeyPatch.context() as patch, product(stage) as server:
        patch.setenv("XDG_STATE_HOME", state)
        server.act("patch.apply")
        patch.setenv("HSCONSOLE_CONFIG_DIR", str(stage.config_folder))
        command = [sys.executable, "-m", "console", "server", "start", "--yes", "--wait", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        yield Running(server.agent, stage, done)


def test_a_start_is_followed_by_its_canary(running: Running) -> None:
    done = running.started
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["no_canary"] == ""
    assert document["state"]["phase"] == "ready"
    assert document["canary"]["verdict"] == "ok"
    assert tuple(step["title"] for step in document["canary_steps"]) == NAMES
    assert document["canary"]["tolerances"].startswith("float32 rows within 3.8e-06: 64 roundoffs")
    state = calls.server_state(running.agent)
    assert state.canary is not None
    assert state.canary.verdict is Verdict.OK


def test_a_right_server_passes_and_no_dump_is_left(running: Running) -> None:
    steps: list[StepResult] = []
    found = calls.canary(running.agent, running.profile, steps.append)
    assert found.verdict is Verdict.OK, found
    assert tuple(check.name for check in found.checks) == tuple(step.title for step in steps) == NAMES
    assert [check.name for check in found.checks if check.verdict is not Verdict.OK] == ["ranks"], "there is but one"
    assert not list(running.folder.glob("req_*"))


def upside_down(path: Path) -> None:
    """Rows that depend on what comes behind them."""
    values = dumpfaults.load(path, "aux_1")
    values[-3:] *= -1
    dumpfaults.save(path, "aux_1", values)


class Stuck:
    """A buffer that the first request filled and no other."""

    def __init__(self) -> None:
        self._first: dict[str, object] = {}

    def __call__(self, path: Path) -> None:
        for name in ("aux_0", "aux_1"):
            values = dumpfaults.load(path, name)
            first = self._first.setdefault(name, values)
            values[:] = first[: len(values)]  # type: ignore[index]
            dumpfaults.save(path, name, values)


class Sometimes:
    """Every other request is another layer's."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, path: Path) -> None:
        self._count += 1
        if self._count == 3:
            dumpfaults.save(path, "aux_1", dumpfaults.load(path, "aux_0") * 1.5)


# what a faulty dumper does to every request, and the check of the canary that says so first
SYSTEMATIC: dict[str, tuple[Fault, str]] = {
    "rows shifted by one": (dumpfaults.rows_shifted_by_one, "final against logprobs"),
    "final before its norm": (dumpfaults.pre_norm_final, "final against logprobs"),
    "final of another norm": (dumpfaults.final_of_another_norm, "final against logprobs"),
    "layers swapped": (dumpfaults.swapped_layers, "order of layers"),
    "rows that see the future": (upside_down, "prefix"),
    "a buffer that stays": (Stuck(), "repeat"),
    "now this layer, now that": (Sometimes(), "repeat"),
    "another request's ids": (dumpfaults.ids_of_another_request, "prompt"),
    "a health check's row": (dumpfaults.merged_row, "prompt"),
    "a shortened prompt": (dumpfaults.shortened_prompt, "prompt"),
    "a cached beginning": (dumpfaults.missing_first_rows, "prompt"),
    "not a number": (dumpfaults.nan, "prompt"),
}


@pytest.mark.parametrize("name", SYSTEMATIC)
def test_a_faulty_dumper_is_caught(running: Running, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, check = SYSTEMATIC[name]

    def opened(path: str, number: int) -> Dump:
        fault(Path(path))
        return Dump(path, number)

    monkeypatch.setattr(ask, "Dump", opened)
    found = running.canary()
    assert found.verdict is Verdict.BAD, found
    assert next(one.name for one in found.checks if one.verdict is Verdict.BAD) == check, found
    kept = [running.folder / f"req_{number}" for number in found.dumps]
    assert all(path.exists() for path in kept), "what is wrong stays to be looked at"
    for path in kept:
        shutil.rmtree(path)


def test_a_health_check_between_shows_in_the_log(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(*args: object, **more: object) -> ask.Asked:
        url = f"http://127.0.0.1:{running.target.port}/health_generate"
        if len(asked) == 1:
            urllib.request.urlopen(url, timeout=60).read()
        asked.append(ask.ask(*args, **more))  # type: ignore[arg-type]
        return asked[-1]

    asked: list[ask.Asked] = []
    monkeypatch.setattr(canary, "ask", sent)
    found = running.canary()
    odd = {check.name: check for check in found.checks if check.verdict is not Verdict.OK}
    assert set(odd) == {"ranks", "log against dumps"}, odd
    assert odd["log against dumps"].verdict is Verdict.WARN
    assert "of one token each" in odd["log against dumps"].found
    for number in found.dumps:
        shutil.rmtree(running.folder / f"req_{number}")


def test_stored_dumps_at_the_level_of_meaning(running: Running) -> None:
    """Each fault of the table in a dump of its own, among good ones, by the levels that claim them."""
    dice = random.Random(5)
    faults: dict[int, Fault] = {}
    good = []
    for fault in (*FAULTS, *(None for _ in range(12))):
        ids = tuple(dice.randrange(2, 512) for _ in range(dice.randint(12, 80)))
        number = ask.ask(running.target, None, ids, ask.new_rid("stored"), logprobs=False).number
        assert number is not None
        if fault is None:
            good.append(number)
        else:
            fault(running.folder / f"req_{number}")
            faults[number] = fault
    found: dict[int, VerifyResult] = {}
    before = {path.name for path in running.folder.glob("req_*")}

    def on_progress(progress: VerifyProgress) -> None:
        found.update({result.number: result for result in progress.results})

    summary = calls.dumps_verify(running.agent, running.profile, [*faults, *good], Level.MEANING, on_progress)
    assert not summary.ok
    assert {found[number].verdict for number in good} == {Verified.OK}, [found[number] for number in good]
    missed = [fault.__name__ for number, fault in faults.items() if found[number].verdict is Verified.OK]
    assert not missed
    meant = {number for number, fault in faults.items() if FAULTS[fault] == "meaning"}
    assert {found[number].verdict for number in meant} == {Verified.BAD}
    assert {path.name for path in running.folder.glob("req_*")} == before, "a replay leaves no dump"


def test_meaning_without_a_server_is_unverified(running: Running) -> None:
    elsewhere = Target(python="python3", model_path="/nowhere", port=1, dump_dir=str(running.folder))
    number = ask.ask(running.target, None, (5, 6, 7, 8), ask.new_rid("alone"), logprobs=False).number
    assert number is not None
    result = replay.replay(elsewhere, VerifyResult(number, Verified.OK, Level.CONTENT))
    assert (result.verdict, result.level) == (Verified.UNVERIFIED, Level.MEANING)
    assert "no server" in result.checks[0].found
    summary = replay.run(elsewhere, [number], Level.MEANING, lambda _: None, threading.Event())
    assert not summary.ok
