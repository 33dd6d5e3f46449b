"""The checks that read every number of a dump, each file once, in chunks."""

from __future__ import annotations

import hashlib
import struct
from typing import Optional

from remote.wire.plan import Check, Verdict

from .content import CHUNK
from .dump import Dump
from .meta import IDS
from .verdict import AGAIN, MERGED, Expected, judge, unknown

_SUSPECTS = 1000  # rows of two tensors that are compared byte by byte
_NUMPY = "Let the profile name the Python of SGLang's environment, which has numpy."


def checksums(dump: Dump, _: Optional[Expected]) -> Check:
    problems, unrecorded, matched = [], [], 0
    for name, tensor in dump.tensors.items():
        content, record = dump.content(name), dump.meta.files.get(name)
        in_zip = {tensor.crc} if tensor.crc or not tensor.payload else set()
        recorded = in_zip | ({record.crc32} if record else set())
        if not recorded:
            unrecorded.append(name)
        elif recorded != {content.crc}:
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
    """No tensor equals another, whole or in a row."""
    names = list(dump.hidden)
    if len(names) < 2:
        return unknown("layers differ", "fewer than two tensors can be read")
    problems, twins = [], set()
    for at, name in enumerate(names):
        for other in names[at + 1 :]:
            if other in twins:
                continue
            if _equal(dump, name, other):
                twins.add(other)
                problems.append(f"{other} equals {name} in every row")
            else:
                problems += equal_rows(dump, name, other)
    remedy = "One tensor was captured for two layers: check the patch and the layers."
    return judge("layers differ", problems, f"{len(names)} different tensors", remedy)


def _equal(dump: Dump, name: str, other: str) -> bool:
    one, two = dump.tensors[name], dump.tensors[other]
    if (one.payload, dump.content(name).crc) != (two.payload, dump.content(other).crc):
        return False
    return all(a == b for a, b in zip(one.chunks(CHUNK), two.chunks(CHUNK)))


def equal_rows(dump: Dump, name: str, other: str) -> list[str]:
    """What to say when rows of two tensors are the same bytes; nothing where values were not looked at."""
    squares, others = dump.content(name).squares, dump.content(other).squares
    one, two = dump.tensors[name], dump.tensors[other]
    if squares is None or others is None or len(squares) != len(others) or one.row_bytes != two.row_bytes:
        return []
    suspects = [int(row) for row in (squares == others).nonzero()[0]][:_SUSPECTS]
    equal = [row for row in suspects if one.rows_at(row, 1) == two.rows_at(row, 1)]
    more = f", and in {len(equal) - 1} more rows" if len(equal) > 1 else ""
    return [f"{other} equals {name} in row {equal[0]}{more}"] if equal else []


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
