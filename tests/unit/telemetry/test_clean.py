"""Exactly what dead processes left is removed, looked at again right before."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.telemetry import clean
from remote.wire.errors import ChangedSincePlan, Refused
from remote.wire.plan import StepResult, Verdict
from tests.unit.telemetry.leaving import TARGET, Hold, judged, left


def cleaned(basis: dict[str, Any]) -> tuple[list[StepResult], Any]:
    steps: list[StepResult] = []
    return steps, clean.clean(TARGET, basis, steps.append)


def cleaned_while(basis: dict[str, Any], meanwhile: Callable[[], object]) -> tuple[list[StepResult], Any]:
    """meanwhile: what happens when the first is removed and the next not yet."""
    steps: list[StepResult] = []

    def after_the_first(result: StepResult) -> None:
        steps.append(result)
        if len(steps) == 1:
            meanwhile()

    return steps, clean.clean(TARGET, basis, after_the_first)


def test_exactly_what_is_stale_is_removed(hold: Hold, shm: Path) -> None:
    for name in ("nccl-AbCd12", "psm_00000000"):
        left(shm, name, 8192)
    hold("mapped", "psm_11111111")
    (shm / "sglang_hs" / "req_0").mkdir(parents=True)
    (shm / "sglang_hs" / "req_0" / "psm_00000000").touch()
    (shm / "other").touch()
    plan = clean.plan(TARGET)
    assert [step.command for step in plan.steps] == [f"unlink {shm}/nccl-AbCd12", f"unlink {shm}/psm_00000000"]
    assert re.match(r"nccl-AbCd12: NCCL, 8\.2 KB, \d+ s old; nobody has it open", plan.steps[0].title)
    assert "16.4 KB" in plan.title
    steps, outcome = cleaned(plan.basis)
    assert outcome.ok
    assert [step.title for step in steps] == [step.title for step in plan.steps]
    assert all(step.ok for step in steps)
    assert {path.name for path in shm.iterdir()} == {"psm_11111111", "sglang_hs", "other"}
    assert (shm / "sglang_hs" / "req_0" / "psm_00000000").exists()
    assert not clean.plan(TARGET).needed


def grow(shm: Path, hold: Hold) -> None:
    with (shm / "psm_00000000").open("ab") as file:
        file.write(b"x")


def write(shm: Path, hold: Hold) -> None:
    with (shm / "psm_00000000").open("r+b") as file:
        file.write(b"x")


def made_anew(shm: Path, hold: Hold) -> None:
    (shm / "psm_00000000").rename(shm / "kept")
    left(shm, "psm_00000000")


def taken_up(shm: Path, hold: Hold) -> None:
    hold("opened", "psm_00000000")


@pytest.mark.parametrize("change", [grow, write, made_anew, taken_up])
def test_nothing_is_removed_when_one_has_changed_since(
    hold: Hold, shm: Path, change: Callable[[Path, Hold], None]
) -> None:
    left(shm, "nccl-AbCd12")
    left(shm, "psm_00000000")
    plan = clean.plan(TARGET)
    change(shm, hold)
    with pytest.raises(ChangedSincePlan, match="psm_00000000"):
        cleaned(plan.basis)
    assert {"nccl-AbCd12", "psm_00000000"} <= {path.name for path in shm.iterdir()}


def test_what_goes_meanwhile_is_no_fault(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nccl-AbCd12", "psm_00000000"):
        left(shm, name)
    plan = clean.plan(TARGET)
    monkeypatch.setattr(clean, "HOLDS", 0.0)
    steps, outcome = cleaned_while(plan.basis, (shm / "psm_00000000").unlink)
    assert outcome.ok
    assert [(step.ok, step.detail) for step in steps] == [(True, "removed"), (True, "it had gone")]


def test_what_had_gone_is_no_fault(shm: Path) -> None:
    left(shm, "nccl-AbCd12")
    left(shm, "psm_00000000")
    plan = clean.plan(TARGET)
    (shm / "nccl-AbCd12").unlink()
    assert cleaned(plan.basis)[1].ok
    with pytest.raises(ChangedSincePlan, match="gone already"):
        cleaned(plan.basis)


def test_each_is_looked_at_again_right_before(hold: Hold, shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens after the run has begun: one is written to, one is opened; both stay."""
    for name in ("nccl-AbCd12", "psm_00000000", "psm_11111111"):
        left(shm, name)
    plan = clean.plan(TARGET)
    monkeypatch.setattr(clean, "HOLDS", 0.0)

    def meanwhile() -> None:
        write(shm, hold)
        hold("opened", "psm_11111111")

    steps, outcome = cleaned_while(plan.basis, meanwhile)
    assert not outcome.ok
    assert [step.ok for step in steps] == [True, False, False]
    assert steps[1].detail.startswith("left alone: ")
    assert "has it open" in steps[2].detail
    assert {path.name for path in shm.iterdir()} == {"psm_00000000", "psm_11111111"}
    assert outcome.checks[0].verdict is Verdict.BAD


def test_one_that_may_not_be_removed_is_told(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left(shm, "psm_00000000")
    plan = clean.plan(TARGET)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refuse)
    steps, outcome = cleaned(plan.basis)
    assert not outcome.ok
    assert "only its owner and root may remove it" in steps[0].detail


@pytest.mark.parametrize(
    "basis",
    [
        {},
        {"at": 0, "device": 1, "segments": []},
        {"at": 0, "device": 1, "segments": {"psm_00000000": [1]}},
        {"at": 0, "device": 1, "segments": {"psm_00000000": ["a", 1, 1, 1]}},
        {"at": 0, "device": 1, "segments": {"../etc/passwd": [1, 1, 1, 1]}},
        {"at": 0, "device": 1, "segments": {"sglang_hs": [1, 1, 1, 1]}},
        {"at": 0, "device": 1, "segments": {"nccl-/../x": [1, 1, 1, 1]}},
    ],
)
def test_a_basis_that_is_none_removes_nothing(shm: Path, basis: dict[str, Any]) -> None:
    left(shm, "psm_00000000")
    with pytest.raises(Refused):
        cleaned(basis)
    assert (shm / "psm_00000000").exists()


def test_another_file_system_refuses(shm: Path) -> None:
    left(shm, "psm_00000000")
    plan = clean.plan(TARGET)
    with pytest.raises(ChangedSincePlan, match="another file system"):
        cleaned({**plan.basis, "device": plan.basis["device"] + 1})


def test_a_process_that_ends_meanwhile_is_no_fault(shm: Path) -> None:
    """Processes come and go while /proc is looked through."""
    left(shm, "psm_00000000")
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            subprocess.run(["true"], check=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            assert judged() == {"psm_00000000": True}
    finally:
        stop.set()
        thread.join()
