"""Which layers SGLang itself captures for an EAGLE-3 draft, by release. See docs/format.md for the two conventions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from remote.wire.plan import Check, Verdict

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)", re.ASCII)
_LITERAL_FROM = (0, 5, 13)  # from here on ids are captures, but for lists that begin with 1
NAME = "draft's layers"


def captures(version: str, eagle_ids: Sequence[int]) -> Optional[tuple[int, ...]]:
    """Before which layers SGLang `version` captures for a draft with `eagle_ids`; None for a version not understood.

    Up to 0.5.12 an id is a layer's output: captured before the next one. From 0.5.13 it is the layer captured before,
    unless the first id is 1.
    """
    found = _VERSION.match(version)
    if found is None:
        return None
    release = tuple(int(part) for part in found.groups())
    shifted = release < _LITERAL_FROM or tuple(eagle_ids[:1]) == (1,)
    return tuple(layer + 1 for layer in eagle_ids) if shifted else tuple(eagle_ids)


def check(version: Optional[str], eagle_ids: Optional[Sequence[int]], dumped: Sequence[int]) -> Optional[Check]:
    """Whether a server of this release captures for this draft what the dumps hold; None without a draft's ids.

    dumped: before which layers the dumps are captured.
    """
    if eagle_ids is None:
        return None
    found = captures(version or "", eagle_ids)
    if found is None:
        return Check(
            NAME, Verdict.UNKNOWN, f"it is not known what SGLang {version or 'of an unknown version'} captures"
        )
    said = f"SGLang {version} with eagle ids {list(eagle_ids)} captures before {list(found)}"
    if found == tuple(dumped):
        return Check(NAME, Verdict.OK, f"{said}, as the dumps do")
    remedy = (
        f"Say in the profile what is meant instead of eagle_layer_ids: dump.layers = {list(dumped)}, and serve the "
        f"draft with ids {list(dumped)}; or dump.layers = {list(found)}, for a draft that is served with these ids."
    )
    return Check(NAME, Verdict.BAD, f"{said}, the dumps are captured before {list(dumped)}", remedy)
