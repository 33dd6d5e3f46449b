"""Folders for what is ours alone, below places where others may write."""

from __future__ import annotations

import contextlib
import os
import stat


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
