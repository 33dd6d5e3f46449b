"""One prompt of the canary: sent, answered, dumped and read; its dump taken away again."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, Optional

from remote.dumps import checks
from remote.dumps import meta as metadata
from remote.dumps.archive import TensorProblem
from remote.dumps.dump import Dump
from remote.dumps.generate import Generate
from remote.dumps.request import missing_check, prompt_check, wait_for_dump
from remote.dumps.search import Search, belongs
from remote.dumps.verdict import Expected, unknown
from remote.wire.dumps import DumpRow, DumpState
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

from . import states
from .logits import TOP
from .states import States


def new_rid(what: str) -> str:
    """Of a request that everybody can tell for a canary's."""
    return f"hsconsole-canary-{what}-{uuid.uuid4().hex}"


@dataclasses.dataclass
class Asked:
    """ids: the prompt. number, states: of its dump, None where it did not come or can't be read. info: meta_info.

    checks: those that were made, good or bad. version: of SGLang, as the dump says.
    """

    ids: tuple[int, ...]
    rid: str
    number: Optional[int] = None
    states: Optional[States] = None
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    checks: list[Check] = dataclasses.field(default_factory=list)
    version: Optional[str] = None


def ask(
    target: Target,
    numpy: Any,
    ids: tuple[int, ...],
    rid: str,
    *,
    logprobs: bool = True,
    cancelled: Optional[threading.Event] = None,
) -> Asked:
    """logprobs: of every position. cancelled: then it is not waited for much longer.

    Raises ServerError when nothing listens; everything else that fails is a check.
    """
    asked = Asked(ids, rid)
    search = Search(target.dump_dir)
    expected = Expected(ids, target.layers, rid, time.time())
    server = Generate(target)
    more = {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": TOP} if logprobs else {}
    server.send(ids, rid, **more)
    answer = server.answer(cancelled)
    asked.info = answer.info
    if answer.problem:
        asked.checks.append(
            Check("answer", Verdict.BAD, f"the server {answer.problem}", "Look at the server's state and log.")
        )
        return asked
    asked.checks.append(prompt_check(answer, len(ids)))
    row = wait_for_dump(search, expected, cancelled)
    asked.checks.extend(
        [missing_check(target, search)] if row is None else _examine(target, numpy, row, expected, asked)
    )
    return asked


def _examine(target: Target, numpy: Any, row: DumpRow, expected: Expected, asked: Asked) -> Iterator[Check]:
    asked.number = row.number
    if row.state is DumpState.ERROR:
        yield Check("dump", Verdict.BAD, f"req_{row.number} could not be dumped: {row.note}", "Remove its cause.")
        return
    try:
        dump = Dump(path_of(target, row.number), row.number)
        asked.version = str(dump.meta.raw.get("sglang_version") or "") or None
        yield from checks.run(dump, expected)
        if numpy is not None:
            asked.states = states.read(numpy, dump)
    except FileNotFoundError:
        yield unknown("dump", f"req_{row.number} was taken away while it was read", "Does a consumer take dumps?")
    except (OSError, TensorProblem) as error:
        yield Check("dump", Verdict.BAD, f"req_{row.number}: {error}", "Look at it: hsconsole dumps show.")


def path_of(target: Target, number: int) -> str:
    return os.path.join(target.dump_dir, f"req_{number}")


def remove(target: Target, asked: Asked) -> None:
    """Take the dump away, if it still is the one of this request: renamed first, so that nobody sees half of it."""
    if asked.number is None:
        return
    path, aside = path_of(target, asked.number), os.path.join(target.dump_dir, f".req_{asked.number}.{os.getpid()}")
    if not belongs(metadata.read(path), asked.rid, asked.ids):
        return
    try:
        os.rename(path, aside)
    except OSError:
        return  # a consumer has it
    shutil.rmtree(aside, ignore_errors=True)
