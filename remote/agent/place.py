"""Finds a place for the agent. The console sends this file to a Python's stdin, before the agent is there.

Arguments: PYTHON ASKED NONCE DIGEST SIZE PLACES. PYTHON is how the shell called this interpreter, ASKED what the
profile names; PLACES is a JSON list of folders, the best first, with `CACHE`, `~` and `UID` in them. Prints one line:
NONCE and a JSON object. Places behind one that has the agent are not touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from typing import Any

KEPT = 3  # agents of other versions, for consoles of other versions
STALE = 3600.0  # seconds; a push that takes longer is dead
OURS = re.compile(r"agent-[0-9a-f]{64}\.pyz|\.agent-.*\.part")


def main(arguments: list[str]) -> None:
    python, asked, nonce, digest, size, places = arguments
    found: dict[str, Any] = {"python": python, "note": explain(python, asked), "places": [], "failed": []}
    for place in json.loads(places):
        folder = os.path.expanduser(place.replace("CACHE", cache()).replace("UID", str(os.getuid())))
        try:
            have = examine(folder, digest, int(size))
        except OSError as error:
            found["failed"].append([folder, error.strerror or str(error)])
            continue
        found["places"].append({"folder": folder, "have": have})
        if have:
            break
    sys.stdout.write(f"{nonce} {json.dumps(found)}\n")


def cache() -> str:
    """The user's folder for caches; as the XDG specification wants it, one that is not absolute does not count."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return named if os.path.isabs(named) else "~/.cache"


def explain(python: str, asked: str) -> str:
    """Why `python` runs instead of the one that was asked for; nothing when it is that one."""
    if python == asked:
        return ""
    path = shutil.which(asked) or asked
    if not os.path.exists(path):
        why = "does not exist"
    elif not os.access(path, os.X_OK) or os.path.isdir(path):
        why = "can't be run"
    else:
        why = "is no Python 3.9 or newer"
    return f"{asked} {why}; the agent runs on {sys.executable or python}, without SGLang's environment"


def examine(folder: str, digest: str, size: int) -> bool:
    """Whether `folder` has the agent already. Raises OSError when the agent can't be put there, saying why."""
    if not os.path.isabs(folder):
        raise OSError("there is no home folder")
    make(folder)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError("it is not a folder of its own but a link or a file")
    if status.st_uid != os.getuid():
        raise OSError(f"it belongs to another user (uid {status.st_uid})")
    if status.st_mode & 0o022:
        raise OSError(f"others can write to it (mode {stat.S_IMODE(status.st_mode):o})")
    if replaceable(folder):
        raise OSError("others can put another in its place: a folder above it is writable for all, without sticky bit")
    agent = os.path.join(folder, f"agent-{digest}.pyz")
    if has(agent, digest):
        os.utime(agent)  # the newest are kept
        tidy(folder, agent)
        return True
    tidy(folder, agent)
    with tempfile.TemporaryFile(dir=folder) as probe:
        os.posix_fallocate(probe.fileno(), 0, size)
    return False


# These two are those of remote/wire/folders.py, letter for letter: the agent is not there yet to import them from.


def make(path: str) -> None:
    """Make `path`, and what is missing above it, for their owner alone whatever the umask. Raises OSError."""
    if not os.path.isdir(path):
        make(os.path.dirname(path) or os.curdir)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # what mkdir gives is less the umask


def replaceable(path: str) -> bool:
    """Whether anybody may put another in its place: in /tmp the sticky bit keeps what is another's where it is.

    Raises OSError.
    """
    above = os.path.dirname(os.path.realpath(path))
    while above != os.path.dirname(above):
        mode = os.stat(above).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return True
        above = os.path.dirname(above)
    return False


def has(agent: str, digest: str) -> bool:
    try:
        if not stat.S_ISREG(os.lstat(agent).st_mode):
            return False
        with open(agent, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def tidy(folder: str, agent: str) -> None:
    """Remove all but the newest few agents, and pushes that ended halfway. Other people's files are left alone."""
    files = [os.path.join(folder, name) for name in os.listdir(folder) if OURS.fullmatch(name)]
    aged: list[tuple[float, str]] = []
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # another console tidies too
            aged.append((os.lstat(path).st_mtime, path))
    aged.sort(reverse=True)
    agents = [path for _, path in aged if path.endswith(".pyz") and path != agent]
    dead = [path for modified, path in aged if path.endswith(".part") and time.time() - modified > STALE]
    for path in agents[KEPT:] + dead:
        with contextlib.suppress(OSError):
            os.unlink(path)


if __name__ == "__main__":
    main(sys.argv[1:])
