"""The patch's calls: status, and apply and revert as plan and run."""

from __future__ import annotations

import os
import time
from typing import Any, Callable

from remote.patch import choice, files
from remote.patch.change import Change, Job, applying, reverting
from remote.patch.look import Look, at, take
from remote.patch.status import of, status
from remote.patch.store import Store
from remote.statedir import state_dir
from remote.wire.errors import ChangedSincePlan, OperatorError
from remote.wire.patch import PatchState, PatchStatus
from remote.wire.plan import Check, OnStep, Outcome, Plan, StepResult, Verdict
from remote.wire.target import Target

__all__ = ["apply", "plan_apply", "plan_revert", "revert", "status"]

Build = Callable[[Target, Look], Change]


def plan_apply(target: Target) -> Plan:
    """What apply would do. Raises Refused or PatchError where the patch can't go in."""
    return applying(target, take(target, choice.of_model)).plan


def plan_revert(target: Target) -> Plan:
    """What revert would do. Raises Refused where the original can't be proven."""
    return reverting(target, take(target, choice.to_revert)).plan


def apply(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    """Run a plan of plan_apply. Raises ChangedSincePlan when what it rests on has changed."""
    _run(target, basis, step, choice.of_model, applying)
    seen = status(target)
    checks = (_state_check(seen), *seen.depths)
    good = seen.state is PatchState.APPLIED and all(c.verdict is Verdict.OK for c in seen.depths[:-1])
    summary = seen.summary
    if seen.depths[-1].verdict is Verdict.WARN:
        summary += f"; {seen.depths[-1].found}: restart it"
    return Outcome("patch.apply", good, summary, checks)


def revert(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:
    """Run a plan of plan_revert. Raises ChangedSincePlan when what it rests on has changed."""
    change = _run(target, basis, step, choice.to_revert, reverting)
    file, _ = change.results[0]
    look = take(target, lambda _, __: file)
    stays = look.dumper_digest is not None
    dumper = _why_it_stays(look) if stays and not change.removes_dumper else "is gone"
    checks = (
        *_put_back(look, change.results[0][1]),
        *(check for other, content in change.results[1:] for check in _put_back(at(look, other), content)),
        _check("dumper", not (stays and change.removes_dumper), f"{look.dumper_folder} {dumper}"),
    )
    seen = of(target, look)
    good = all(check.verdict is Verdict.OK for check in checks)
    return Outcome("patch.revert", good, seen.summary, (*checks, seen.depths[-1]))


def _put_back(look: Look, content: bytes) -> tuple[Check, Check]:
    """Whether the file holds that now, and no line of a patch."""
    wanted, name = files.sha256(content)[:12], os.path.basename(look.path)
    return (
        _check("file", look.raw == content, f"{name}: {look.sha256[:12]}, byte for byte the original {wanted}"),
        _check("text", not look.patched and not look.foreign, f"{look.path} bears no lines of the patch"),
    )


def _why_it_stays(look: Look) -> str:
    if look.also_patched:
        return f"stays: {', '.join(look.also_patched)} is patched too"
    return "stays: hsconsole did not write it"


def _run(target: Target, basis: dict[str, Any], step: OnStep, choose: choice.Choose, build: Build) -> Change:
    # one change of an installation at a time: its model files share the dumper
    with Store(state_dir()).locked(str(basis.get("dumper_folder"))):
        change = build(target, take(target, choose))
        _same(change.plan.basis, basis)
        for job in change.jobs:
            _do(job, step)
    return change


def _same(now: dict[str, Any], then: dict[str, Any]) -> None:
    changed = [name for name in now if now[name] != then.get(name)]
    if changed:
        what = ", ".join(f"{name} was {then.get(name)}, is {now[name]}" for name in changed)
        raise ChangedSincePlan(what, "Nothing was changed. Look at the new plan, then confirm that one.")


def _do(job: Job, step: OnStep) -> None:
    began = time.monotonic()
    try:
        detail = job.work()
    except OperatorError as error:
        step(StepResult(job.step.title, False, error.what, time.monotonic() - began, job.step.command))
        raise
    step(StepResult(job.step.title, True, detail, time.monotonic() - began, job.step.command))


def _state_check(seen: PatchStatus) -> Check:
    return _check("state", seen.state is PatchState.APPLIED, seen.summary)


def _check(name: str, good: bool, found: str) -> Check:
    return Check(name, Verdict.OK, found) if good else Check(name, Verdict.BAD, f"not so: {found}", "Look again.")
