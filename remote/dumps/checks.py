"""Every check of one dump, in the order they are told: the record's five first, then what it could not see."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Callable, Optional

from remote.wire.plan import Check, Verdict

from . import measured, recorded
from .archive import TensorProblem
from .dump import Dump
from .verdict import AGAIN, Expected, unknown

CheckOf = Callable[[Dump, Optional[Expected]], Optional[Check]]
STRUCTURE: dict[str, CheckOf] = {
    "tokens": recorded.tokens,
    "hidden size": recorded.hidden_size,
    "layers": recorded.layers,
    "files": recorded.files,
    "counter and time": recorded.counter,
    "request": recorded.request,
    "dtype": recorded.dtype,
    "checksums": measured.checksums,
}
CONTENT: dict[str, CheckOf] = {
    "finite": measured.finite,
    "not constant": measured.not_constant,
    "layers differ": measured.layers_differ,
    "ids": measured.ids,
}


def run(
    dump: Dump, expected: Optional[Expected] = None, which: Sequence[dict[str, CheckOf]] = (STRUCTURE, CONTENT)
) -> Iterator[Check]:
    """Each check as it is made; a check with nothing to say about this dump is left out. Never raises.

    STRUCTURE needs the standard library alone; CONTENT looks at every number, and needs numpy to be made.
    """
    for name, check in ((name, check) for checks in which for name, check in checks.items()):
        found = _made(name, check, dump, expected)
        if found is not None:
            yield found


def _made(name: str, check: CheckOf, dump: Dump, expected: Optional[Expected]) -> Optional[Check]:
    try:
        return check(dump, expected)
    except FileNotFoundError as error:
        return unknown(name, f"{os.path.basename(str(error.filename))} was taken away while it was read")
    except (OSError, TensorProblem) as error:
        return Check(name, Verdict.BAD, f"a tensor can't be read to its end: {error}", AGAIN)
    except Exception as error:
        return unknown(name, f"this check could not be made: {type(error).__name__}: {error}")
