"""Hidden states of every prefilled request, written to `SGLANG_HS_DUMP_DIR`; imported by the patched model file.

Copied beside the `sglang` package as `hsconsole_dumper`. Needs Python 3.9, torch, and nothing else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .dumper import Dumper
    from .passes import Pass

_dumper: Optional[Dumper] = None


def begin(model: Any, input_ids: Any, positions: Any, forward_batch: Any) -> Optional[Pass]:
    """To be called before the layer loop. The pass to `capture` and `finish`, None when nothing is dumped in it."""
    return None if _dumper is None else _dumper.begin(model, input_ids, positions, forward_batch)


if os.environ.get("SGLANG_HS_DUMP_DIR"):
    from .start import start

    _dumper = start(os.environ)
