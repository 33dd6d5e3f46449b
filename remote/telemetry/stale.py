"""Segments of dead processes: which they are, told only where it is certain.

A segment that nobody has open is not yet left over: programs hand each other names, and open them later. So it counts
as left over only when nobody is left who could: nobody has it open or mapped; whoever made it, if its name tells, has
ended; no process that deals in segments, and makes its files as the same user, is older than it; and it has been quiet.
Where a process can't be looked into, or some can't be seen at all, nothing is certain.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Optional

from remote import processes
from remote.processes import PROC
from remote.telemetry import segments, users
from remote.telemetry.segments import Segment
from remote.telemetry.users import User, Uses

QUIET = 60.0  # seconds that a segment must not have changed: its maker may be about to open it
SLACK = 2.0  # seconds by which a process's start and a file's time may differ
FIRST_PID_NAMESPACE, FIRST_IPC_NAMESPACE = "pid:[4026531836]", "ipc:[4026531839]"  # numbers that Linux gives them
PRIVATE = ("lxc", "systemd-nspawn")  # containers whose /dev/shm is no other's, as process 1's environment names them


@dataclasses.dataclass(frozen=True)
class Found:
    """One segment. stale: None where it is not certain. why: the ground for it, in words."""

    segment: Segment
    stale: Optional[bool]
    why: str


@dataclasses.dataclass(frozen=True)
class Survey:
    """All segments. doubt: why staleness can't be told of any, with what to do; empty when it can."""

    found: tuple[Found, ...]
    doubt: str = ""

    @property
    def stale(self) -> tuple[Found, ...]:
        return tuple(each for each in self.found if each.stale)

    @property
    def bytes(self) -> int:
        """That the stale ones take."""
        return sum(each.segment.bytes for each in self.stale)


def survey() -> Survey:
    """Judge every segment that is there now. Looks through /proc once, if there is any that may be stale."""
    listed, now = segments.listing(), time.time()
    if all(_is_busy(each, now) for each in listed):
        return Survey(tuple(_of_busy(each, now) for each in listed))
    uses = users.look(listed[0].device)
    doubt = _doubt(uses)
    judge = _Judge(listed, uses, now, doubt)
    return Survey(tuple(map(judge.verdict, listed)), doubt)


def _is_busy(segment: Segment, now: float) -> bool:
    return now - segment.changed < QUIET


def _of_busy(segment: Segment, now: float) -> Found:
    if segment.changed > now + SLACK:
        return Found(segment, None, "its time lies ahead of the clock")
    return Found(segment, False, "it changed less than a minute ago")


def _doubt(uses: Uses) -> str:
    if uses.unseen:
        whom = f"{len(uses.unseen)} processes" if len(uses.unseen) > 1 else f"process {uses.unseen[0]}"
        if os.geteuid() == 0:
            return f"not even root may look into {whom} here, which may have any of them open"
        return f"this user may not look into {whom}, which may have any of them open: log in as root"
    return outside()


def outside() -> str:
    """Why processes that can't be seen from here may use /dev/shm too; empty when there are none."""
    if processes.namespace("pid") == FIRST_PID_NAMESPACE:
        return ""  # all processes of this machine are seen
    if processes.namespace("ipc") == FIRST_IPC_NAMESPACE:
        return "this container shares the host's /dev/shm, whose processes it can't see"
    if _came_from_outside():
        return f"{segments.SHM} was mounted into this container from outside, where others may use it unseen"
    kind = processes.environ(1).get("container", "")
    if kind not in PRIVATE:
        return f"others may share {segments.SHM} unseen: this is no LXC container ({kind or 'of an unknown kind'})"
    return ""


def _came_from_outside() -> bool:
    """Mounts of the host that reach into a container follow the host's: the kernel calls them slaves."""
    try:
        lines = (PROC / "self" / "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return True
    mounts = [fields for fields in map(str.split, lines) if len(fields) > 6 and fields[4] == str(segments.SHM)]
    return any(field.startswith("master:") for fields in mounts[-1:] for field in fields[6 : fields.index("-")])


class _Judge:
    def __init__(self, listed: list[Segment], uses: Uses, now: float, doubt: str) -> None:
        self._uses = uses
        self._now = now
        self._doubt = doubt
        self._overflow = _overflow_uid()
        self._held = {inode: user for user in uses.users for inode in user.inodes}
        made = {each.inode: min(each.mtime_ns, each.ctime_ns) / 1e9 for each in listed}
        self._dealers = [
            (user, min([user.since, *(made[i] for i in user.inodes & made.keys())])) for user in uses.users
        ]

    def verdict(self, segment: Segment) -> Found:
        user = self._held.get(segment.inode)
        if user is not None:
            return Found(segment, False, f"pid {user.pid} has it open: {user.command[:100]}")
        if segment.name in self._uses.names:
            return Found(segment, False, "a process has a file of its name open")
        if _is_busy(segment, self._now):
            return _of_busy(segment, self._now)
        maker = self._uses.started.get(segment.pid or 0)
        if maker is not None and maker <= segment.changed + SLACK:
            return Found(segment, False, f"pid {segment.pid}, which made it, lives")
        dealer = self._older(segment)
        if dealer is not None:
            return Found(segment, False, f"pid {dealer.pid} may have made it and use it yet: {dealer.command[:100]}")
        if self._doubt:
            return Found(segment, None, self._doubt)
        if segment.uid == self._overflow:
            return Found(segment, None, "it is of a user from outside of this container")
        made = f"pid {segment.pid}, which made it, has ended" if segment.pid else "who could have made it has ended"
        return Found(segment, True, f"nobody has it open; {made}")

    def _older(self, segment: Segment) -> Optional[User]:
        """A process that deals in segments, of the segment's user or root, that was there when it changed last.

        When it started is told by the clock as it goes now, which may have been set since; what it has mapped was made
        by the same clock as the segment, and after its start or before.
        """
        for user, since in self._dealers:
            if user.uid in (segment.uid, 0, -1) and since <= segment.changed + SLACK:
                return user
        return None


def _overflow_uid() -> int:
    """What a user that has no number in this user namespace is shown as; -1 where every user has one."""
    try:
        mapped = [line.split() for line in (PROC / "self" / "uid_map").read_text().splitlines()]
        if sum(int(count) for _, _, count in mapped) >= (1 << 32) - 1:
            return -1
        return int((PROC / "sys" / "kernel" / "overflowuid").read_text())
    except (OSError, ValueError):
        return 65534
