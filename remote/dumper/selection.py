"""Which requests ranks above 0 write: none, but those of a canary, so that somebody can compare the ranks.

See 'Other ranks' in docs/format.md.
"""

from __future__ import annotations

import hashlib
import os
import time

from .batch import Segment
from .files import read_small
from .request import Part

_LARGEST = 1 << 16
_FORGOTTEN_S = 600.0


class Selection:
    """What `<dump folder>/.canary` names: request ids and SHA-256 of input ids, one a line.

    One that is ten minutes old was left by a canary that was killed, and names nothing.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, ".canary")

    def any(self) -> bool:
        try:
            return time.time() - os.stat(self._path).st_mtime < _FORGOTTEN_S
        except OSError:
            return False

    def takes(self, segment: Segment, part: Part) -> bool:
        try:
            wanted = set(read_small(self._path, _LARGEST).decode("utf-8", "replace").split())
        except OSError:
            return False
        ids = part.tensors.get("input_ids")
        return segment.rid in wanted or (ids is not None and hashlib.sha256(ids.data).hexdigest() in wanted)
