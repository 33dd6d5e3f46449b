"""The four-deep check: text, hash, the file that is imported, and what the server loaded."""

from __future__ import annotations

import glob
import os
from typing import Optional

from remote.canary import convention
from remote.patch import choice, files, loaded, marks, package
from remote.patch.look import Look, NoModelFileError, NoSglangError, take
from remote.patch.origin import original_of
from remote.patch.recipes import known_releases
from remote.patch.store import Record
from remote.wire.patch import MarkedLine, PatchState, PatchStatus
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

APPLY = "hsconsole patch apply"
DEPTHS = ("text", "hash", "imported", "loaded")
_ABSENT = {
    NoSglangError: PatchState.NO_SGLANG,
    NoModelFileError: PatchState.UNKNOWN_RELEASE,
    choice.UnknownModelError: PatchState.UNKNOWN_MODEL,
}


def status(target: Target) -> PatchStatus:
    """What is there now. Changes nothing; raises PatchError only where a file can't be read."""
    try:
        return of(target, take(target, choice.to_show))
    except (NoSglangError, NoModelFileError, choice.UnknownModelError) as error:
        state = next(state for kind, state in _ABSENT.items() if isinstance(error, kind))
        text, *others = DEPTHS
        first = Check(text, Verdict.UNKNOWN, "nothing to look at", error.remedy)
        depths = (first, *(Check(name, Verdict.UNKNOWN, "nothing to look at") for name in others))
        return PatchStatus(state, target.python, error.what, depths=depths)


def of(target: Target, look: Look) -> PatchStatus:
    state = state_of(look)
    original = original_of(look) if look.patched or look.foreign else None
    known = original.content if original else (None if look.patched or look.foreign else look.raw)
    return PatchStatus(
        state=state,
        python=target.python,
        summary=_summary(state, look),
        sglang_version=look.release,
        model_file=look.path,
        family=look.woven.recipe.name if look.woven else None,
        version=look.marked.version or None if look.marked else None,
        file_sha256=look.sha256,
        original_sha256=files.sha256(known) if known is not None else None,
        lines=lines_of(look),
        depths=(_text(state, look), _hash(state, look), _imported(look), loaded.check(target, look)),
        notes=_notes(look) + _draft(target, look),
    )


def state_of(look: Look) -> PatchState:
    if look.foreign:
        return PatchState.FOREIGN
    if not look.patched:
        return PatchState.UNKNOWN_RELEASE if look.woven is None else PatchState.CLEAN
    if look.exact and original_of(look) is not None:
        return _by_dumper(look)
    if look.marked is None:
        return PatchState.DRIFTED
    ours = look.record is not None and look.record.written_sha256 == look.sha256
    return PatchState.OUTDATED if ours or look.marked.version != marks.VERSION else PatchState.DRIFTED


def _by_dumper(look: Look) -> PatchState:
    """The model file is right; the dumper decides."""
    if look.dumper_digest == package.shipped_digest():
        return PatchState.APPLIED
    edited = look.record is not None and not look.dumper_known
    return PatchState.DRIFTED if look.dumper_digest is None or edited else PatchState.OUTDATED


def lines_of(look: Look) -> tuple[MarkedLine, ...]:
    """The marked lines, or where there are none every line that bears the patch's names."""
    return look.marked.lines if look.marked and look.marked.lines else marks.foreign_lines(look.raw)


def _summary(state: PatchState, look: Look) -> str:
    sglang = f"sglang {look.release or '(unknown release)'}"
    if state is PatchState.DRIFTED:
        return f"{sglang} bears the patch's marks, but was changed since: {_drift(look)}"
    return {
        PatchState.CLEAN: f"{sglang} is not patched",
        PatchState.APPLIED: f"{sglang} is patched",
        PatchState.OUTDATED: f"{sglang} was patched by another version of hsconsole: apply again",
        PatchState.FOREIGN: f"{sglang} bears another dump patch, in {len(lines_of(look))} lines: not hsconsole's",
        PatchState.UNKNOWN_RELEASE: f"{sglang} is not known: {look.misfit}. Known: {known_releases(look.file)}",
    }[state]


def _drift(look: Look) -> str:
    if look.marked is None:
        return look.marks_problem
    if not look.exact:
        return look.misfit or "the marked lines are not this patch's"
    if original_of(look) is None:
        return "lines outside the marks differ from what the patch was applied to"
    return "the dumper is missing" if look.dumper_digest is None else "the dumper is not the one that was installed"


def _text(state: PatchState, look: Look) -> Check:
    found = lines_of(look)
    if not found:
        return Check("text", Verdict.WARN, "no lines of the patch", APPLY)
    where = f"{len(found)} lines, {found[0].number} to {found[-1].number}"
    if state is PatchState.FOREIGN:
        return Check("text", Verdict.BAD, f"{where}, of another patch", "Take it out by hand; then apply.")
    if look.exact:
        return Check("text", Verdict.OK, f"{where}, as this hsconsole writes them")
    return Check("text", Verdict.BAD, where + f": {_drift(look)}", APPLY)


def _hash(state: PatchState, look: Look) -> Check:
    short = look.sha256[:12]
    if state is PatchState.APPLIED:
        original = original_of(look)
        return Check("hash", Verdict.OK, f"{short}: {original.proof if original else ''}")
    if look.patched or look.foreign:
        return Check("hash", Verdict.BAD, f"{short}: {_summary(state, look)}", APPLY)
    if look.release_sha256 is None:
        return Check("hash", Verdict.UNKNOWN, f"{short}; this installation does not say what it came with")
    if look.release_sha256 == look.sha256:
        return Check("hash", Verdict.OK, f"{short}: the release's own file")
    return Check("hash", Verdict.WARN, f"{short}: not the release's own file, which is {look.release_sha256[:12]}")


def _imported(look: Look) -> Check:
    stale = _unchecked(look.path)
    if stale:
        return Check("imported", Verdict.BAD, f"Python runs {stale} and never looks at the file", f"rm {stale}")
    init = os.path.join(look.dumper_folder, "__init__.py")
    dumper = look.environment.dumper
    if look.patched and look.dumper_digest is not None and not (dumper and _same(dumper, init)):
        found = f"the dumper is in {look.dumper_folder}, but this Python imports {dumper or 'none'}"
        return Check("imported", Verdict.BAD, found, f"Remove {dumper}." if dumper else APPLY)
    return Check("imported", Verdict.OK, f"{look.path} is what {look.environment.interpreter.path} imports")


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _unchecked(path: str) -> Optional[str]:
    """A compiled file that Python takes without a look at its source: hash-based, never checked (PEP 552)."""
    folder, name = os.path.split(path)
    stem = os.path.join(folder, "__pycache__", name[: -len(".py")])
    for pyc in glob.glob(f"{glob.escape(stem)}.*.pyc"):
        try:
            with open(pyc, "rb") as source:
                flags = source.read(8)[4:8]
        except OSError:
            continue
        if flags == b"\1\0\0\0":
            return pyc
    return None


def _notes(look: Look) -> tuple[str, ...]:
    notes = []
    record = look.record
    if record is not None and not look.patched:
        notes.append(_unpatched_since(record, look))
    if not look.patched and look.dumper_digest is not None:
        notes.append(
            f"a dumper is left in {look.dumper_folder}: {APPLY} uses it anew, hsconsole patch revert removes it"
        )
    if look.woven and not look.woven.recipe.seen_in(look.release):
        notes.append(f"{look.release} is not among the releases {look.woven.recipe.name} was made for; its shape fits")
    if look.patched and look.marked and marks.foreign_lines(look.marked.base):
        notes.append("lines of another dump patch stand outside the marks")
    notes += [
        f"{path} bears the patch too, for another model: hsconsole patch revert takes it out of every file"
        for path in look.also_patched
    ]
    others = [*look.environment.others, *_elsewhere(look)]
    notes += [f"another sglang is in {other}; {look.package} is the one imported" for other in look.environment.others]
    notes += [f"{path} bears the patch too, and is not what this Python imports" for path in _patched(others, look)]
    if look.store is None:
        notes.append("no folder can keep originals: apply is refused")
    return tuple(notes)


def _draft(target: Target, look: Look) -> tuple[str, ...]:
    """The alarm when this release captures other layers for the draft's ids than are dumped."""
    found = convention.check(look.release, target.eagle_layer_ids, target.layers)
    return () if found is None or found.verdict is Verdict.OK else (found.found,)


def _unpatched_since(record: Record, look: Look) -> str:
    if record.original_sha256 == look.sha256:
        return "an apply was cut off here, or somebody put the original back"
    if record.sglang_version != look.release:
        return f"the patch was applied to the older release {record.sglang_version}; {look.release} came over it"
    return "the patch was applied here, and the file was replaced since"


def _elsewhere(look: Look) -> list[str]:
    return [record.path for record in look.store.records()] if look.store else []


def _patched(places: list[str], look: Look) -> list[str]:
    """Patched model files among `places`, files and packages, that are not in the package looked at."""
    found = {place for place in places if place.endswith(".py") and marks.has_marks(files.read(place) or b"")}
    for folder in (place for place in places if not place.endswith(".py")):
        found.update(os.path.join(folder, file.path) for file in choice.patched(folder))
    own = {look.path, *map(os.path.realpath, look.also_patched)}
    return sorted({os.path.realpath(path) for path in found} - own)
