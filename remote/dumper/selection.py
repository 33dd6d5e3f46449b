"""Which requests ranks above 0 write: none, but those of a canary, so that somebody can compare the ranks.

See 'Other ranks' in docs/format.md.
"""

from __future__ import annotations

import hashlib
import os

from .batch import Segment
from .request import Part

_LARGEST = 1 << 16


class Selection:
    """What `<dump folder>/.canary` names: request ids and SHA-256 of input ids, one a line."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, ".canary")

    def any(self) -> bool:
        return os.path.exists(self._path)

    def takes(self, segment: Segment, part: Part) -> bool:
        try:
            with open(self._path, "rb") as file:
                wanted = set(file.read(_LARGEST).decode("utf-8", "replace").split())
        except OSError:
            return False
        ids = part.tensors.get("input_ids")
        return segment.rid in wanted or (ids is not None and hashlib.sha256(ids.data).hexdigest() in wanted)
