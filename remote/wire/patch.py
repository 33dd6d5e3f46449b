"""The state of the patch in one SGLang installation."""

from __future__ import annotations

import dataclasses
import enum
from typing import Optional

from .plan import Check


class PatchState(str, enum.Enum):
    CLEAN = "clean"
    APPLIED = "applied"
    OUTDATED = "outdated"  # applied by another version of hsconsole
    DRIFTED = "drifted"  # our marks, other content
    FOREIGN = "foreign"  # the forerunner's inline patch
    UNKNOWN_RELEASE = "unknown release"
    UNKNOWN_MODEL = "unknown model"  # no recipe for its architecture, or it does not tell that
    NO_SGLANG = "no sglang"


@dataclasses.dataclass(frozen=True)
class MarkedLine:
    """A line of the patch in the model file, as `grep -n` shows it (1-based)."""

    number: int
    text: str


@dataclasses.dataclass(frozen=True)
class PatchStatus:
    """The four-deep check.

    depths: always four Checks named "text", "hash", "imported", "loaded" (what the running server says it loaded).
    family: the recipe's name, e.g. "deepseek 0.5.21-0.5.23". version: of the patch that is applied.
    """

    state: PatchState
    python: str
    summary: str
    sglang_version: Optional[str] = None
    model_file: Optional[str] = None
    family: Optional[str] = None
    version: Optional[str] = None
    file_sha256: Optional[str] = None
    original_sha256: Optional[str] = None
    lines: tuple[MarkedLine, ...] = ()
    depths: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
