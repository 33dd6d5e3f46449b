"""A forward pass taken apart: which rows belong to which request, and which requests are whole in it.

Works on SGLang's ForwardBatch by its attributes alone, those that 0.4.6 to 0.5.23 have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

from .problem import Problem
from .release import MISSING, option

_UNKNOWN_PAGE = 128  # at least what any release uses
_HEALTH = "HEALTH_CHECK"
_NOT_CHUNKED = "Start the server with --chunked-prefill-size -1"


@dataclasses.dataclass(frozen=True)
class Segment:
    """The rows `start … start + rows - 1` of a pass. prefix: position of the first. problem: why not to dump them."""

    rid: Optional[str]
    start: int
    rows: int
    prefix: int
    problem: Optional[Problem] = None

    @property
    def health_check(self) -> bool:
        return self.rid is not None and self.rid.startswith(_HEALTH)


@dataclasses.dataclass(frozen=True)
class ChunkRule:
    """Where SGLang cuts prompts. limit: tokens of a pass, None when it never cuts. page: tokens of a cache page.

    Each prompt is charged whole pages; the one that does not fit into what is left is cut and comes last in its pass.
    anywhere: the release aligns cuts in a way that the charge does not tell.
    """

    limit: Optional[int]
    page: int = 1
    anywhere: bool = False

    def last_may_be_cut(self, lengths: Sequence[int]) -> bool:
        if self.limit is None:
            return False
        charged = sum(-(-length // self.page) * self.page for length in lengths)
        return self.anywhere or charged + self.page > self.limit


def chunk_rule() -> ChunkRule:
    """What the running server does. An unknown limit counts as one that is always reached."""
    size, page = option("chunked_prefill_size"), option("page_size")
    if size is MISSING:
        return ChunkRule(0, 1, anywhere=True)
    if size is None or size <= 0:
        return ChunkRule(None)
    known_page = page if isinstance(page, int) and page > 0 else _UNKNOWN_PAGE
    return ChunkRule(size, known_page, anywhere=option("enable_deterministic_inference") is True)


def split(batch: Any, rule: ChunkRule) -> list[Segment]:
    """The requests of a plain prefill pass, in the order of their rows."""
    lengths = _integers(batch.extend_seq_lens_cpu, batch.extend_seq_lens)
    prefixes = _integers(batch.extend_prefix_lens_cpu, batch.extend_prefix_lens)
    rids: Sequence[Optional[str]] = getattr(batch, "rids", None) or [None] * len(lengths)
    segments, start = [], 0
    for rid, rows, prefix in zip(rids, lengths, prefixes):
        segments.append(Segment(rid, start, rows, prefix, _missing_rows(rows, prefix) if prefix else None))
        start += rows
    if segments and rule.last_may_be_cut(lengths):
        last = segments[-1]
        segments[-1] = dataclasses.replace(last, problem=last.problem or _perhaps_cut(last.rows, rule))
    return segments


def _integers(host: Any, device: Any) -> list[int]:
    values = device if host is None else host
    return [int(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]


def _missing_rows(rows: int, prefix: int) -> Problem:
    detail = f"{rows} rows from position {prefix} on. {_NOT_CHUNKED} and --disable-radix-cache"
    return Problem("the first rows are missing: the radix cache had them, or the prompt came in chunks", detail)


def _perhaps_cut(rows: int, rule: ChunkRule) -> Problem:
    detail = f"{rows} rows, last of a pass that is full at {rule.limit} tokens. {_NOT_CHUNKED}"
    return Problem("the last rows may be missing: the pass is full, so its last prompt may have been cut", detail)
