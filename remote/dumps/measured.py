"""The checks that read every number of a dump, each file once, in chunks."""

from __future__ import annotations

import hashlib
import struct
from typing import Optional

from remote.wire.plan import Check, Verdict

from .dump import Dump
from .meta import IDS
from .verdict import AGAIN, MERGED, Expected, judge, unknown

_NUMPY = "Let the profile name the Python of SGLang's environment, which has numpy."


def checksums(dump: Dump, _: Optional[Expected]) -> Check:
    problems, unrecorded, matched = [], [], 0
    for name, tensor in dump.tensors.items():
        content, record = dump.content(name), dump.meta.files.get(name)
        if record is None and tensor.crc == 0 and tensor.payload:
            unrecorded.append(name)
        elif content.crc != (record.crc32 if record else tensor.crc):
            problems.append(f"{name} is not what was written: its CRC differs")
        else:
            matched += 1
    if not problems and (unrecorded or not matched):
        return unknown("checksums", f"none is recorded for {', '.join(unrecorded) or 'any tensor'}")
    kind = "CRC in meta.json" if dump.meta.files else "CRC in the zip"
    return judge("checksums", problems, f"{matched} payloads match the {kind}", AGAIN)


def finite(dump: Dump, _: Optional[Expected]) -> Check:
    found = {name: dump.content(name).not_finite for name in dump.hidden}
    return _numbers(dump, "finite", found, "no NaN, no Inf", "Check the weights, the dtype and the rope settings.")


def not_constant(dump: Dump, _: Optional[Expected]) -> Check:
    found = {name: dump.content(name).constant for name in dump.hidden}
    remedy = "A buffer was never written or written twice: dump again, and check the patch when it stays."
    return _numbers(dump, "not constant", found, "no row is zero or one value", remedy)


def layers_differ(dump: Dump, _: Optional[Expected]) -> Check:
    if len(dump.hidden) < 2:
        return unknown("layers differ", "fewer than two tensors can be read")
    first: dict[str, str] = {}
    problems = []
    for name in dump.hidden:
        twin = first.setdefault(dump.content(name).sha256, name)
        if twin != name:
            problems.append(f"{name} equals {twin} in every row")
    remedy = "One tensor was captured for two layers: check the patch and the layers."
    return judge("layers differ", problems, f"{len(dump.hidden)} different tensors", remedy)


def ids(dump: Dump, expected: Optional[Expected]) -> Optional[Check]:
    """Nothing to say about a dump of version 1 or 2, which holds no ids."""
    tensor = dump.tensors.get(IDS)
    if tensor is None:
        return Check("ids", Verdict.BAD, f"{IDS} can't be read", AGAIN) if IDS in dump.meta.names else None
    found, problems = dump.content(IDS).sha256, []
    if dump.meta.ids_sha256 not in (None, found):
        problems.append(f"{IDS} does not match ids_sha256")
    if expected is not None and found != ids_sha256(expected.ids):
        problems.append("the ids are not the ones that were sent")
    return judge("ids", problems, f"{tensor.rows} ids" + (", those that were sent" if expected else ""), MERGED)


def ids_sha256(values: tuple[int, ...]) -> str:
    """As in meta.json: SHA-256 of the ids as little-endian int64."""
    return hashlib.sha256(struct.pack(f"<{len(values)}q", *values)).hexdigest()


def _numbers(dump: Dump, check: str, found: dict[str, Optional[str]], fine: str, remedy: str) -> Check:
    problems = [f"{name}: {words}" for name, words in found.items() if words]
    unread = [dump.content(name).unread for name, words in found.items() if words is None]
    if not found:
        return unknown(check, "no tensor can be read")
    if unread and not problems:
        return unknown(check, "; ".join(dict.fromkeys(unread)), _NUMPY if "numpy" in unread[0] else "")
    return judge(check, problems, fine, remedy)
