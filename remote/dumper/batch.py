"""A forward pass taken apart: which rows belong to which request.

Works on SGLang's ForwardBatch by its attributes alone, those that 0.4.6 to 0.5.23 have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

_HEALTH = "HEALTH_CHECK"


@dataclasses.dataclass(frozen=True)
class Segment:
    """The rows `start … start + rows - 1` of a pass. index: of the request in its batch. prefix: position of the first
    row in its prompt."""

    index: int
    rid: Optional[str]
    start: int
    rows: int
    prefix: int

    @property
    def end(self) -> int:
        """Position behind the last row."""
        return self.prefix + self.rows

    @property
    def health_check(self) -> bool:
        return self.rid is not None and self.rid.startswith(_HEALTH)


def mode(batch: Any) -> str:
    """The name of what its requests do. SGLang may call an idle or a decoding batch one of prefill, for its shape."""
    return str((getattr(batch, "_original_forward_mode", None) or batch.forward_mode).name)


def split(batch: Any) -> list[Segment]:
    """The requests of a prefill pass, in the order of their rows."""
    lengths = _integers(batch.extend_seq_lens_cpu, batch.extend_seq_lens)
    prefixes = _integers(batch.extend_prefix_lens_cpu, batch.extend_prefix_lens)
    rids: Sequence[Optional[str]] = getattr(batch, "rids", None) or [None] * len(lengths)
    segments, start = [], 0
    for index, (rid, rows, prefix) in enumerate(zip(rids, lengths, prefixes)):
        segments.append(Segment(index, rid, start, rows, prefix))
        start += rows
    return segments


def prompt_lengths(batch: Any) -> Optional[Any]:
    """A tensor with the whole length of each prompt, chunks to come included; None before 0.4.10."""
    return getattr(batch, "orig_seq_lens", None)


def _integers(host: Any, device: Any) -> list[int]:
    values = device if host is None else host
    return [int(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
