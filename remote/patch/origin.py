"""What a patched file was before: only bytes that can be proven."""

from __future__ import annotations

import dataclasses
from typing import Optional

from remote.patch import files, marks, seam
from remote.patch.look import Look, committed
from remote.patch.recipes import ModelFile


@dataclasses.dataclass(frozen=True)
class Original:
    """content: what a revert puts back. proof: why it is the original, for the operator."""

    content: bytes
    proof: str


def original_of(look: Look) -> Optional[Original]:
    """The original of a patched file, ours or the forerunner's; None where none can be proven."""
    if look.foreign:
        return _before_foreign(look)
    return _recorded(look) or _left_over(look)


def _recorded(look: Look) -> Optional[Original]:
    """The file is as we wrote it, and what it was is kept."""
    record = look.record
    if record is None or look.store is None or record.written_sha256 != look.sha256:
        return None
    content = look.store.original(record.original_sha256)
    return Original(content, "the original kept when the patch was applied") if content is not None else None


def _left_over(look: Look) -> Optional[Original]:
    """What is left without the marked lines, where that is known to be the file as it was."""
    if look.marked is None:
        return None
    base = look.marked.base
    digest = files.sha256(base)
    if digest == look.release_sha256:
        return Original(base, "without the marked lines it is the release's own file")
    if look.record is not None and digest == look.record.original_sha256:
        return Original(base, "without the marked lines it is what the patch was applied to")
    if look.store is not None and look.store.original(digest) is not None:
        return Original(base, "without the marked lines it is an original kept here")
    if committed(look.path) == base:
        return Original(base, "without the marked lines it is the file as the git checkout's last commit has it")
    if look.record is None and look.exact:
        return Original(base, "no record is left of the apply, but the marked lines are exactly the patch's")
    return None


def _before_foreign(look: Look) -> Optional[Original]:
    store, record = look.store, look.record
    kept = store.original(look.release_sha256) if store else None
    if kept is not None:
        return Original(kept, "the release's own file, kept here")
    if store is not None and record is not None and record.sglang_version == look.release:
        content = store.original(record.original_sha256)
        if content is not None:
            return Original(content, "the original kept when the patch was applied to this release")
    content = committed(look.path)
    if content is not None and _pristine(content, look.file):
        return Original(content, "the file as the git checkout's last commit has it")
    return None


def _pristine(content: bytes, file: ModelFile) -> bool:
    if marks.has_marks(content) or marks.foreign_lines(content):
        return False
    try:
        seam.weave(content, file)
    except seam.UnknownReleaseError:
        return False
    return True
