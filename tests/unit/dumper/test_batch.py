"""Which rows are whose, and which prompts may not be whole."""

from __future__ import annotations

import pytest

from remote.dumper.batch import ChunkRule, split

from .making import batch

NEVER = ChunkRule(None)


class OnDevice(list[int]):
    """A tensor as far as the splitting looks at it."""

    def tolist(self) -> list[int]:
        return list(self)


def test_requests_of_one_pass() -> None:
    segments = split(batch([3, 1, 5]), NEVER)
    assert [(s.rid, s.start, s.rows, s.prefix, s.problem) for s in segments] == [
        ("r0", 0, 3, 0, None),
        ("r1", 3, 1, 0, None),
        ("r2", 4, 5, 0, None),
    ]


def test_lengths_on_the_device_only() -> None:
    lengths, prefixes = OnDevice([2, 2]), OnDevice([0, 0])
    found = split(batch([], extend_seq_lens_cpu=None, extend_prefix_lens_cpu=None, rids=["a", "b"],
                        extend_seq_lens=lengths, extend_prefix_lens=prefixes), NEVER)  # fmt: skip
    assert [(s.rid, s.start) for s in found] == [("a", 0), ("b", 2)]


def test_releases_that_do_not_carry_rids() -> None:
    old = batch([2, 2])
    del old.rids
    assert [s.rid for s in split(old, NEVER)] == [None, None]


def test_health_checks_keep_their_rows_but_are_known() -> None:
    segments = split(batch([1, 4], rids=["HEALTH_CHECK_1796004785.1", "r"]), NEVER)
    assert [s.health_check for s in segments] == [True, False]
    assert segments[1].start == 1, "merged into the pass, not into the request"


def test_missing_first_rows() -> None:
    whole, rest = split(batch([4, 6], [0, 100]), NEVER)
    assert whole.problem is None
    assert rest.problem is not None
    assert "--disable-radix-cache" in rest.problem.detail


@pytest.mark.parametrize(
    ("rule", "lengths", "suspect"),
    [
        (ChunkRule(256), [255], False),
        (ChunkRule(256), [256], True),
        (ChunkRule(256), [100, 156], True),
        (ChunkRule(256), [100, 100], False),
        (ChunkRule(255, page=64), [10, 10, 10], True),  # three pages charged, less than one is left
        (ChunkRule(256, page=64), [10, 10, 10], False),
        (ChunkRule(8192, page=64), [8192], True),
        (ChunkRule(8192, anywhere=True), [5], True),
        (NEVER, [100_000], False),
    ],
)
def test_only_the_last_of_a_full_pass_may_be_cut(rule: ChunkRule, lengths: list[int], suspect: bool) -> None:
    segments = split(batch(lengths), rule)
    assert all(segment.problem is None for segment in segments[:-1])
    assert (segments[-1].problem is not None) is suspect
