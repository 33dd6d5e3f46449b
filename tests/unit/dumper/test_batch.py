"""Which rows are whose."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from remote.dumper.batch import mode, prompt_lengths, split

from .making import batch


class OnDevice(list[int]):
    """A tensor as far as the splitting looks at it."""

    def tolist(self) -> list[int]:
        return list(self)


def test_requests_of_one_pass() -> None:
    segments = split(batch([3, 1, 5], [0, 7, 0]))
    assert [(s.rid, s.start, s.rows, s.prefix, s.end) for s in segments] == [
        ("r0", 0, 3, 0, 3),
        ("r1", 3, 1, 7, 8),
        ("r2", 4, 5, 0, 5),
    ]


def test_lengths_on_the_device_only() -> None:
    lengths, prefixes = OnDevice([2, 2]), OnDevice([0, 0])
    found = split(batch([], extend_seq_lens_cpu=None, extend_prefix_lens_cpu=None, rids=["a", "b"],
                        extend_seq_lens=lengths, extend_prefix_lens=prefixes))  # fmt: skip
    assert [(s.rid, s.start) for s in found] == [("a", 0), ("b", 2)]


@pytest.mark.parametrize("rids", ["none", "not told"])
def test_releases_that_do_not_carry_rids(rids: str) -> None:
    old = batch([2, 2], rids=None)
    if rids == "not told":
        del old.rids
    assert [s.rid for s in split(old)] == [None, None]


def test_releases_that_do_not_tell_how_long_prompts_are() -> None:
    assert prompt_lengths(batch([2])) is None
    assert prompt_lengths(batch([2], orig_seq_lens=[5])) == [5]


def test_health_checks_keep_their_rows_but_are_known() -> None:
    segments = split(batch([1, 4], rids=["HEALTH_CHECK_1796004785.1", "r"]))
    assert [s.health_check for s in segments] == [True, False]
    assert segments[1].start == 1, "merged into the pass, not into the request"


@pytest.mark.parametrize(("original", "name"), [("IDLE", "IDLE"), ("DECODE", "DECODE"), (None, "EXTEND")])
def test_a_batch_that_is_called_prefill_for_its_shape(original: str | None, name: str) -> None:
    relabelled = batch([1], forward_mode=SimpleNamespace(name="EXTEND"))
    assert mode(relabelled) == "EXTEND", "releases that do not say"
    relabelled._original_forward_mode = original and SimpleNamespace(name=original)
    assert mode(relabelled) == name
