"""Whose is the folder of the dumps? In /dev/shm anybody may make it first, and then put links where dumps go."""

from __future__ import annotations

import os
import stat
from typing import Optional

from remote import processes
from remote.telemetry import shm
from remote.wire.plan import Check, Verdict

ROOT = 0


def check(folder: str) -> Optional[Check]:
    """None when it can be written to here, or made, and nobody else can change what is in it."""
    above = shm.existing(folder)
    if not os.access(above, os.W_OK | os.X_OK):
        what = f"{folder} can't be {'written to' if above == folder else 'made'}"
        what += f": user {processes.user_name(os.getuid())} may not write to {above}"
        return Check("dump folder", Verdict.BAD, what, "Set dump.folder to one that this user may write to.")
    try:
        found = os.lstat(folder)
        if stat.S_ISLNK(found.st_mode) and found.st_uid in (os.getuid(), ROOT):
            found = os.stat(folder)  # a link of our own
    except OSError:
        return None
    if found.st_uid not in (os.getuid(), ROOT):
        problem = f"belongs to user {processes.user_name(found.st_uid)}"
    elif found.st_mode & 0o022:
        problem = "can be written to by others"
    else:
        return None
    remedy = "Unless they are trusted: remove it, and make one of your own with `install -d -m 700`."
    what = f"{folder} {problem}: they could replace dumps, or have other files of yours written to"
    return Check("dump folder", Verdict.WARN, what, remedy)
