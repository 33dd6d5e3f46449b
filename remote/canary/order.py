"""Whether the captured layers are in the order they should be: the deeper one is, the more it is like the end.

The residual stream is a sum that grows layer by layer, so the angle to its last value falls with depth. The last value
is the dumped `final` before its norm, but for its length: `final` divided by the norm's weight.
"""

from __future__ import annotations

from typing import Any

from remote.wire.plan import Check, Verdict

from .head import NoHead, norm_weight
from .states import States

NAME = "order of layers"
_CLEAR = 0.02  # of a cosine: two layers that are closer than this may be in any order
_REMEDY = "The tensors are not of the layers they say: check the patch and SGLANG_HS_DUMP_LAYERS, restart the server."


def check(numpy: Any, states: States, model_path: str) -> Check:
    """By the median over rows of the cosine between each captured layer and the end."""
    final = states.tensors["final.pt"].astype("f8")
    try:
        weight = norm_weight(numpy, model_path, final.shape[1])
    except NoHead as problem:
        return Check(NAME, Verdict.UNKNOWN, str(problem))
    with numpy.errstate(all="ignore"):
        end = numpy.where(weight == 0, 0, final / weight)
    names = [name for name in states.tensors if name != "final.pt"]
    alike = [float(numpy.median(_cosines(numpy, states.tensors[name].astype("f8"), end))) for name in names]
    said = ", ".join(f"{name[:-3]} {cosine:.3f}" for name, cosine in zip(names, alike))
    for at, later in enumerate(alike[1:], 1):
        if not later > max(alike[:at]) - _CLEAR:
            return Check(NAME, Verdict.BAD, f"{names[at]} is less like the end than one before it: {said}", _REMEDY)
    return Check(NAME, Verdict.OK, f"cosine to the end rises: {said}" if names else "no layer is captured")


def _cosines(numpy: Any, states: Any, end: Any) -> Any:
    with numpy.errstate(all="ignore"):
        sizes = numpy.linalg.norm(states, axis=-1) * numpy.linalg.norm(end, axis=-1)
        return (states * end).sum(axis=-1) / numpy.maximum(sizes, 1e-30)
