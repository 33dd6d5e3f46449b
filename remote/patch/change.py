"""What apply and revert would do to one installation: a plan for the operator, and the work behind each step."""

from __future__ import annotations

import dataclasses
import difflib
import os
import shlex
import time
from typing import Any, Callable

from remote.patch import files, marks, package, seam
from remote.patch.look import Look, beside
from remote.patch.origin import original_of
from remote.patch.recipes import ModelFile
from remote.patch.status import lines_of, of
from remote.patch.store import Record, Store
from remote.statedir import state_dir
from remote.wire.errors import Refused
from remote.wire.plan import Plan, Step, Verdict
from remote.wire.target import Target

SHOWN_LINES = 12


@dataclasses.dataclass(frozen=True)
class Job:
    """A step and its work, which returns what it did in a few words."""

    step: Step
    work: Callable[[], str]


@dataclasses.dataclass(frozen=True)
class Change:
    """results: what each file holds afterwards, first that of the model. jobs: none when all is as wanted."""

    plan: Plan
    results: tuple[tuple[ModelFile, bytes], ...]
    jobs: tuple[Job, ...]
    removes_dumper: bool = False


def applying(target: Target, look: Look) -> Change:
    """Raises Refused, naming the reason, when the patch can't go in here."""
    base = _base(look)
    woven = seam.weave(base, look.file)
    store = Store(state_dir())
    jobs = []
    if woven.content != look.raw or look.dumper_digest != package.shipped_digest():
        jobs.append(_keep(look, store, base, woven))
    if look.dumper_digest != package.shipped_digest():
        command = f"cp -r {seam.PACKAGE} {shlex.quote(look.dumper_folder)}"
        jobs.append(Job(Step("Install the dumper beside SGLang", command), lambda: _install(look)))
    if woven.content != look.raw:
        added = len(marks.take_apart(woven.content).lines)
        jobs.append(_write(look, woven.content, f"Write {added} marked lines into the model file"))
    title = f"Patch sglang {look.release or ''} ({woven.recipe.name}) for {target.python}"
    losses = () if look.dumper_known else (f"{look.dumper_folder} is replaced, and hsconsole did not write it",)
    plan = _plan("patch.apply", title, target, [(look, woven.content)], jobs, losses)
    return Change(plan, ((look.file, woven.content),), tuple(jobs))


def reverting(target: Target, look: Look) -> Change:
    """Of every file of the package that bears the patch: the profile's model may have been another one then.

    Raises Refused where what was in the model's own file before can't be proven. Another such file stays as it is.
    """
    store = Store(state_dir())
    content, proof = _before(look)
    found = [(other, original_of(other)) for other in beside(look)]
    others = [(other, original) for other, original in found if original is not None]
    stay = [other.path for other, original in found if original is None]
    jobs = _put_back(look, store, content, proof)
    for other, original in others:
        jobs += _put_back(other, store, original.content, original.proof)
    removes_dumper = look.dumper_digest is not None and look.dumper_known and not stay
    if removes_dumper:
        remove = Step("Remove the dumper", f"rm -r {shlex.quote(look.dumper_folder)}")
        jobs.append(Job(remove, lambda: _remove(look)))
    recorded = [one.path for one in (look, *(other for other, _ in others)) if one.record is not None]
    if jobs and recorded:
        jobs.append(Job(Step("Forget the record of the apply"), lambda: _forget(recorded, store)))
    title = f"Take the patch out of sglang {look.release or ''} for {target.python}"
    losses = (
        *(("Lines of the other dump patch, and any other change since then, leave the file.",) * look.foreign),
        *(f"{other.path} is another model's and loses the patch too: its servers stop to dump" for other, _ in others),
        *(f"{path} stays patched: what it was before cannot be proven" for path in stay),
    )
    changed = [(look, content), *((other, original.content) for other, original in others)]
    plan = _plan("patch.revert", title, target, changed, jobs, losses)
    return Change(plan, tuple((one.file, after) for one, after in changed), tuple(jobs), removes_dumper)


def _put_back(look: Look, store: Store, content: bytes, proof: str) -> list[Job]:
    if content == look.raw:
        return []
    name, copy = os.path.basename(look.path), shlex.quote(store.original_path(look.sha256))
    keep = Step(f"Keep {name} as it is now", f"cp {shlex.quote(look.path)} {copy}")
    return [
        Job(keep, lambda: "as " + store.keep(look.raw)[:12]),
        _write(look, content, f"Put the original {name} back: {proof}"),
    ]


def _base(look: Look) -> bytes:
    if look.foreign:
        raise Refused(
            f"{look.path} bears another dump patch:\n{_shown(look)}",
            "Take it out first: hsconsole patch revert where the original is known, else by hand or by a reinstall.",
        )
    if not look.patched:
        return look.raw
    original = original_of(look)
    if original is None:
        raise _unproven(look)
    return original.content


def _before(look: Look) -> tuple[bytes, str]:
    if not look.patched and not look.foreign:
        return look.raw, ""
    original = original_of(look)
    if original is None:
        raise _unproven(look)
    return original.content, original.proof


def _unproven(look: Look) -> Refused:
    what = f"what {look.path} was before the patch cannot be proven"
    if look.foreign:
        return Refused(f"{what}:\n{_shown(look)}", _reinstall(look))
    where = look.marks_problem or "it was changed outside of the marked lines, or they are not this patch's"
    kept = ""
    if look.store is not None and look.record is not None and look.store.original(look.record.original_sha256):
        kept = f" What the patch was applied to is in {look.store.original_path(look.record.original_sha256)}."
    return Refused(f"{what}: {where}", f"Undo that change, or {_reinstall(look)}{kept}")


def _reinstall(look: Look) -> str:
    python = shlex.quote(look.environment.interpreter.path)
    return (
        f"put the release's own file back: {python} -m pip install --force-reinstall --no-deps sglang=={look.release}"
    )


def _shown(look: Look) -> str:
    found = lines_of(look)
    more = [f"… and {len(found) - SHOWN_LINES} more"] if len(found) > SHOWN_LINES else []
    return "\n".join([*(f"{line.number}: {line.text}" for line in found[:SHOWN_LINES]), *more])


def _keep(look: Look, store: Store, base: bytes, woven: seam.Woven) -> Job:
    digest = files.sha256(base)
    record = Record(
        path=look.path,
        original_sha256=digest,
        written_sha256=files.sha256(woven.content),
        dumper_digest=package.shipped_digest(),
        seam=marks.VERSION,
        at=time.time(),
        sglang_version=look.release,
    )

    def work() -> str:
        # written before the file: cut off in between, the file is still known for what it is
        store.keep(look.raw)
        store.keep(base)
        store.remember(record)
        return f"as {digest[:12]}"

    command = f"cp {shlex.quote(look.path)} {shlex.quote(store.original_path(digest))}"
    return Job(Step("Keep the original", command), work)


def _write(look: Look, content: bytes, title: str) -> Job:
    files.check_replaceable(look.path)

    def work() -> str:
        files.replace(look.path, content, look.sha256)
        return f"{look.sha256[:12]} became {files.sha256(content)[:12]}"

    return Job(Step(title, f"patch {shlex.quote(look.path)}"), work)


def _install(look: Look) -> str:
    package.install(look.dumper_folder)
    return f"{package.shipped_digest()[:12]} in {look.dumper_folder}"


def _remove(look: Look) -> str:
    package.remove(look.dumper_folder)
    return look.dumper_folder


def _forget(paths: list[str], store: Store) -> str:
    for path in paths:
        store.forget(path)
    return ", ".join(paths)


def _plan(
    action: str, title: str, target: Target, changed: list[tuple[Look, bytes]], jobs: list[Job], losses: tuple[str, ...]
) -> Plan:
    """changed: each file with what it will hold, first that of the model."""
    now = of(target, changed[0][0])
    running = now.depths[-1]
    restart = (f"{running.found}: the change takes effect when the server is started again",)
    return Plan(
        action=action,
        title=title if jobs else now.summary + ": nothing to do",
        needed=bool(jobs),
        steps=(*(job.step for job in jobs), Step("Look again")) if jobs else (),
        losses=losses,
        notes=now.notes + (restart if jobs and running.verdict is not Verdict.UNKNOWN else ()),
        basis=_basis(changed),
        diff="\n".join(filter(None, (_diff(look.path, look.raw, result) for look, result in changed))),
    )


def _basis(changed: list[tuple[Look, bytes]]) -> dict[str, Any]:
    (look, result), *others = changed
    return {
        "model_file": look.path,
        "file_sha256": look.sha256,
        "result_sha256": files.sha256(result),
        "dumper_folder": look.dumper_folder,
        "dumper_digest": look.dumper_digest,
        "shipped_dumper": package.shipped_digest(),
        "sglang_version": look.release,
        "also_patched": list(look.also_patched),
        "others": {other.path: [other.sha256, files.sha256(after)] for other, after in others},
    }


def _diff(path: str, before: bytes, after: bytes) -> str:
    if before == after:
        return ""
    old, new = (
        [line.decode("utf-8", "replace").rstrip("\r\n") for line in marks.lines_of(raw)] for raw in (before, after)
    )
    return "\n".join(difflib.unified_diff(old, new, path, f"{path} (after)", lineterm=""))
