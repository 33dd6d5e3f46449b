"""The counts in words: what was not looked at is said, and 'none yet' only where there was none."""

from __future__ import annotations

import pytest

from console.operations.counts import superseded, told
from remote.wire.dumps import DumpCounts

WORDS = {
    DumpCounts(): "no requests yet",
    DumpCounts(given=37_312): "none is here now: 37,312 were dumped so far, and taken away",
    DumpCounts(3, 1, 2, given=9): "3 complete, 1 in progress, 2 bad",
    DumpCounts(996, 2, 2, older=36_312): "996 complete, 2 in progress, 2 bad; 36,312 older not looked at",
    DumpCounts(older=7): "0 complete, 0 in progress, 0 bad; 7 older not looked at",
}


@pytest.mark.parametrize("counts", WORDS, ids=WORDS.get)
def test_told(counts: DumpCounts) -> None:
    assert told(counts) == WORDS[counts]


NUMBERS = {
    (): "",
    (4,): "1 superseded, because the request was sent again: req_4",
    tuple(range(10)): f"10 superseded, because the request was sent again: {', '.join(f'req_{n}' for n in range(10))}",
    tuple(range(2011)): f"2,011 superseded, because the request was sent again: "
    f"{', '.join(f'req_{n}' for n in range(10))} and 2,001 more",
}


@pytest.mark.parametrize("numbers", NUMBERS, ids=len)
def test_superseded(numbers: tuple[int, ...]) -> None:
    assert superseded(numbers) == NUMBERS[numbers]
