"""Remove what dead processes left in /dev/shm: the segments that the plan names, each looked at again right before."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from remote.telemetry import segments, stale
from remote.telemetry.segments import Segment
from remote.telemetry.stale import Found, Survey
from remote.wire import amounts
from remote.wire.errors import ChangedSincePlan, Refused
from remote.wire.plan import Check, OnStep, Outcome, Plan, Step, StepResult, Verdict
from remote.wire.target import Target

ACTION = "shm.clean"
HOLDS = 1.0  # seconds that a look at all processes is believed while segments are removed
AGAIN = "Plan it again: hsconsole shm clean."
HAD_GONE = "it had gone"


class Identity(NamedTuple):
    """What tells a segment from another of its name, and from itself once it was written to."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def plan(target: Target) -> Plan:  # noqa: ARG001 - every plan takes it
    """Each segment that would be removed, and on what ground. Not needed where none is known to be left over."""
    seen, at = stale.survey(), round(time.time())
    if not seen.stale:
        title = f"Nothing in {segments.SHM} is known to be a dead process's"
        return Plan(ACTION, title, needed=False, notes=tuple(_notes(seen)))
    return Plan(
        action=ACTION,
        title=f"Remove {_count(len(seen.stale))} of dead processes from {segments.SHM}: {amounts.size(seen.bytes)}",
        needed=True,
        steps=tuple(Step(_title(each, at), f"unlink {segments.SHM}/{each.segment.name}") for each in seen.stale),
        losses=("What these files hold; nobody who could use them is alive.",),
        notes=tuple(_notes(seen)),
        basis={
            "at": at,
            "device": seen.stale[0].segment.device,
            "segments": {each.segment.name: list(_identity(each.segment)) for each in seen.stale},
        },
    )


def clean(target: Target, basis: dict[str, Any], step: OnStep) -> Outcome:  # noqa: ARG001 - every action takes it
    """Remove the plan's segments. Refuses before the first when one of them was used or changed since."""
    at, device, shown = _shown(basis)
    with _folder(device) as folder:
        look = _Look()
        found = _agree(look.now(), shown)
        free = _free(folder)
        for each in found:
            began = time.monotonic()
            ok, said = _remove(folder, each.segment, look.now().get(each.segment.name))
            step(StepResult(_title(each, at), ok, said, time.monotonic() - began))
        checks = (_gone(folder, shown), _room(folder, free))
    ok = all(check.verdict is Verdict.OK for check in checks)
    return Outcome(ACTION, ok, f"{_count(len(shown))} removed." if ok else "Not all are removed.", checks)


def _shown(basis: dict[str, Any]) -> tuple[int, int, dict[str, Identity]]:
    """Time, device and segments of the plan. Raises Refused for what is no basis of it."""
    try:
        named = {str(name): Identity(*map(int, facts)) for name, facts in basis["segments"].items()}
        at, device = int(basis["at"]), int(basis["device"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"the plan's basis can't be read: {error!r}", AGAIN) from None
    odd = [name for name in named if not segments.kind(name)[0]]
    if odd:
        raise Refused(f"no segment of a known kind: {odd[0]!r}", AGAIN)
    return at, device, named


@contextlib.contextmanager
def _folder(device: int) -> Iterator[int]:
    """A descriptor of /dev/shm, so that what is removed is in that folder and no other."""
    handle = os.open(segments.SHM, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(handle).st_dev != device:
            raise ChangedSincePlan(f"{segments.SHM} is another file system now", AGAIN)
        yield handle
    finally:
        os.close(handle)


class _Look:
    """What a survey found, by name; taken again when it is too old to unlink by."""

    def __init__(self) -> None:
        self._taken = -HOLDS
        self._found: dict[str, Found] = {}

    def now(self) -> dict[str, Found]:
        if time.monotonic() - self._taken >= HOLDS:
            self._found = {each.segment.name: each for each in stale.survey().found}
            self._taken = time.monotonic()
        return self._found


def _agree(seen: dict[str, Found], shown: dict[str, Identity]) -> list[Found]:
    """The shown ones that are there. Raises ChangedSincePlan when one of those is no longer as it was shown."""
    here = [each for name, each in seen.items() if name in shown]
    for each in here:
        name = each.segment.name
        if _identity(each.segment) != shown[name]:
            raise ChangedSincePlan(f"{segments.SHM}/{name} was written to or made anew", AGAIN)
        if not each.stale:
            raise ChangedSincePlan(f"{segments.SHM}/{name}: {each.why}", AGAIN)
    if not here:
        raise ChangedSincePlan("all of these are gone already", "There is nothing to remove.")
    return here


def _remove(folder: int, segment: Segment, now: Optional[Found]) -> tuple[bool, str]:
    """Whether it is gone, and what became of it. now: what the last look found of its name."""
    if now is None:
        return True, HAD_GONE
    if not now.stale:
        return False, f"left alone: {now.why}"
    try:
        status = os.stat(segment.name, dir_fd=folder, follow_symlinks=False)
        if segments.of_status(segment.name, status) != segment:
            return False, "left alone: it was written to or made anew just now"
        os.unlink(segment.name, dir_fd=folder)
    except FileNotFoundError:
        return True, HAD_GONE
    except OSError as error:
        whose = ": only its owner and root may remove it" if isinstance(error, PermissionError) else ""
        return False, f"{error.strerror}{whose}"
    return True, "removed"


def _gone(folder: int, shown: dict[str, Identity]) -> Check:
    left = []
    for name, identity in shown.items():
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino == identity.inode:
                left.append(name)
    if left:
        return Check(
            "segments", Verdict.BAD, f"{len(left)} of {len(shown)} are there yet: {', '.join(left[:5])}", AGAIN
        )
    return Check("segments", Verdict.OK, f"all {len(shown)} are gone")


def _free(folder: int) -> int:
    system = os.fstatvfs(folder)
    return system.f_bavail * system.f_frsize


def _room(folder: int, before: int) -> Check:
    """Others may fill it meanwhile, so no figure is wrong here."""
    now = _free(folder)
    return Check("room", Verdict.OK, f"{amounts.size(now)} free in {segments.SHM}, {amounts.size(before)} before")


def _identity(segment: Segment) -> Identity:
    return Identity(segment.inode, segment.size, segment.mtime_ns, segment.ctime_ns)


def _title(each: Found, at: float) -> str:
    """As of `at`, the plan's time, so that a step that ended is known by the plan's words."""
    segment = each.segment
    old = amounts.age(at - segment.changed)
    return f"{segment.name}: {segment.owner}, {amounts.size(segment.bytes)}, {old} old; {each.why}"


def _notes(seen: Survey) -> Iterator[str]:
    used = [each for each in seen.found if each.stale is False]
    unsure = [each for each in seen.found if each.stale is None]
    if unsure:
        yield f"{_count(len(unsure))} may be left over, which can't be told: {unsure[0].why}."
    if used:
        yield f"{_count(len(used))} in use, or maybe, stay: {used[0].segment.name}, {used[0].why}; …"
    yield "Dumps, and files of other names, are never touched."


def _count(number: int) -> str:
    return "1 segment" if number == 1 else f"{number} segments"
