"""The residual stream behind the last layer, as the final norm gets it (SGLANG_HS_DUMP_PRENORM=1)."""

from __future__ import annotations

import weakref
from typing import Any, Optional

from . import reduction
from .passes import Pass

_expected: weakref.WeakKeyDictionary[Any, Optional[Pass]] = weakref.WeakKeyDictionary()


def expect(norm: Any, begun: Optional[Pass]) -> None:
    """Have `begun` keep what `norm`, a module, is called with next."""
    if norm not in _expected:
        if begun is None:
            return
        norm.register_forward_pre_hook(_called)
    _expected[norm] = begun


def _called(norm: Any, args: tuple[Any, ...]) -> None:
    begun = _expected.get(norm)
    _expected[norm] = None
    if begun is not None:
        begun.before_norm(lambda: reduction.stream(args[0], args[1] if len(args) > 1 else None))
