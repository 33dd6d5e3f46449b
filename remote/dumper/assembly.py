"""From passes to requests: each pass is taken apart, chunks of one prompt are put together, writers get the rest.

Writer threads do it, one pass at a time in their order, so that the forward neither waits nor looks at rows.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

from .batch import Segment
from .host import view
from .passes import Taken
from .pool import Loan
from .problem import Problem, problem_of
from .request import Desk, Part, Rank, Writing
from .writers import Line, Writers

_CACHED = Problem("the first rows are missing: the radix cache had them", "Start the server with --disable-radix-cache")
_IN_PLACE = Problem(
    "SGLang refused this prompt and prefilled one token of id 0 in its place",
    "its answer to the client says why. A prompt of that one token can not be told from one, and is not dumped either",
)
_CUT_OFF = Problem("the rest of this prompt never came", "its request was aborted or retracted between two chunks")


class _Open:
    """A request in writing. end: position of the row that has to come next."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self.line = Line()
        self.end = 0


class Assembly:
    """select: which parts are to be written at all. ended: told of each request, with what was wrong with it."""

    def __init__(
        self,
        desk: Desk,
        rank: Rank,
        writers: Writers,
        select: Callable[[Segment, Part], bool],
        ended: Callable[[Optional[Problem]], None],
    ) -> None:
        self._desk = desk
        self._rank = rank
        self._writers = writers
        self._select = select
        self._ended = ended
        self._passes = Line()
        self._open: dict[Optional[str], _Open] = {}  # prompts of which more chunks are to come

    def put(self, taken: Taken) -> None:
        self._writers.put(self._passes, functools.partial(self._take, taken))

    def _take(self, taken: Taken) -> None:
        segments = [segment for segment in taken.segments if not segment.health_check]
        release = _shared(taken.loan, len(segments))
        tensors, problem = _awaited(taken)
        totals = tensors.pop("totals", None)
        before, self._open = self._open, {}
        for segment in segments:
            whole, wrong = _ends(segment, tensors, totals)
            part = _part(segment, tensors, release, problem or wrong)
            if taken.mixed and segment.prefix and segment.rid not in before:
                part.release()
            else:
                self._route(segment, part, before, whole)
        for left in before.values():
            self._writers.put(left.line, functools.partial(self._end, left.writing, _CUT_OFF))

    def _route(self, segment: Segment, part: Part, before: dict[Optional[str], _Open], whole: bool) -> None:
        going_on = before.get(segment.rid)
        if going_on is not None and going_on.end == segment.prefix:
            request = before.pop(segment.rid, going_on)
        else:
            if not self._select(segment, part):
                part.release()
                return
            request = _Open(Writing(self._desk, segment.rid, self._rank))
            if segment.prefix and part.problem is None:
                part = Part(part.rows, part.first, part.tensors, part.release, _CACHED)
        request.end = segment.end
        self._writers.put(request.line, functools.partial(request.writing.add, part))
        if whole:
            self._writers.put(request.line, functools.partial(self._end, request.writing, None))
        else:
            self._open[segment.rid] = request

    def _end(self, writing: Writing, cut_off: Optional[Problem]) -> None:
        try:
            problem = writing.finish() if cut_off is None else writing.give_up(cut_off)
        except Exception as error:
            self._ended(problem_of(error))
            raise
        self._ended(problem)


def _awaited(taken: Taken) -> tuple[dict[str, Any], Optional[Problem]]:
    """The tensors of a pass when the device is done with them, and what is wrong with the pass."""
    if taken.copy is None:
        return {}, taken.problem
    try:
        tensors = dict(taken.copy.wait())
    except Exception as error:
        return {}, taken.problem or problem_of(error)
    if taken.problem is not None:
        tensors = {name: tensors[name] for name in ("input_ids", "totals") if name in tensors}
    return tensors, taken.problem


def _ends(segment: Segment, tensors: dict[str, Any], totals: Optional[Any]) -> tuple[bool, Optional[Problem]]:
    """Whether no more of its prompt is to come, and what is wrong with it; where that can't be told, none is."""
    try:
        whole = totals is None or segment.end >= int(totals[segment.index])
        return whole, _IN_PLACE if whole and _in_place(segment, tensors) else None
    except Exception as error:
        return True, problem_of(error)


def _in_place(segment: Segment, tensors: dict[str, Any]) -> bool:
    """Whether these are the ids that SGLang has in place of a prompt's when it refuses a request that it took: [0]."""
    ids = tensors.get("input_ids")
    return ids is not None and segment.prefix == 0 and segment.rows == 1 and int(ids[segment.start]) == 0


def _part(segment: Segment, tensors: dict[str, Any], release: Callable[[], None], problem: Optional[Problem]) -> Part:
    try:
        start, end = segment.start, segment.start + segment.rows
        rows = {name: view(name, tensor[start:end]) for name, tensor in tensors.items()}
    except Exception as error:
        rows, problem = {}, problem or problem_of(error)
    return Part(segment.rows, segment.prefix, rows, release, problem)


def _shared(loan: Optional[Loan], holders: int) -> Callable[[], None]:
    """What gives the memory of a pass back when all its requests called it."""
    if loan is None:
        return lambda: None
    loan.share(holders)
    return loan.release
