"""Why a request could not be dumped, in the operator's words."""

from __future__ import annotations

import errno
from typing import NamedTuple


class Problem(NamedTuple):
    """cause: one sentence, the same for all requests that fail alike. detail: figures of this one, and what to do."""

    cause: str
    detail: str = ""


class DumpFailure(Exception):
    """A problem met while a request was being written."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.cause)
        self.problem = problem


_CAUSES = {
    errno.ENOSPC: "no space left where the dumps are written",
    errno.EDQUOT: "the disk quota is used up where the dumps are written",
    errno.ENOENT: "the dump folder was deleted while the request was written",
    errno.EACCES: "the dump folder can not be written",
    errno.EROFS: "the dump folder is on a read-only file system",
    errno.EIO: "the device of the dump folder failed",
}


def problem_of(error: BaseException) -> Problem:
    """What an exception means to an operator."""
    if isinstance(error, DumpFailure):
        return error.problem
    known = _CAUSES.get(error.errno or 0) if isinstance(error, OSError) else None
    return Problem(known or "the dumper failed", f"{type(error).__name__}: {error}")
