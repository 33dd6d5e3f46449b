"""Fill rates: by a clock that never jumps, never negative, and no deletion or restart makes an absurd one."""

from __future__ import annotations

import pytest

from remote.telemetry.flow import Flow, Rates

GB = 1_000_000_000


def flow(*looks: tuple[float, int], place: object = 1) -> Flow:
    made = Flow()
    for at, used in looks:
        made.add(at, used, place)
    return made


def test_no_rate_before_it_has_looked_for_a_while() -> None:
    assert Flow().read(5.0) is None
    assert flow((10.0, 0), (11.0, GB)).read(11.0) is None
    assert flow((10.0, 50 * GB), (11.0, 51 * GB), (12.0, 52 * GB)).read(12.0) == Rates(GB, 0.0)


def test_it_ends_a_minute_after_the_last_change() -> None:
    made = flow(*((second, second * GB) for second in range(100)))
    assert made.read(99.0) == Rates(GB, 0.0)
    assert made.read(99.0 + 30.0) == Rates(GB / 2, 0.0)
    assert made.read(99.0 + 61.0) == Rates(0.0, 0.0)


def test_all_deleted_at_once_leaves_the_fill_rate() -> None:
    made = flow(*((second, second * GB if second < 50 else (second - 50) * GB) for second in range(100)))
    rates = made.read(99.0)
    assert rates is not None
    assert rates.filling == pytest.approx(58 * GB / 60, rel=0.05)
    assert rates.emptying == pytest.approx(49 * GB / 60)


def test_a_consumer_that_keeps_up_is_seen_beside_what_it_takes() -> None:
    made = flow(*((second, 10 * GB + (second % 2) * GB) for second in range(61)))
    rates = made.read(60.0)
    assert rates is not None
    assert rates.filling == rates.emptying == pytest.approx(GB / 2)


def test_another_file_system_begins_anew() -> None:
    made = flow((0.0, 100 * GB), (10.0, 110 * GB))
    made.add(11.0, 0, 2)  # mounted anew, or made larger
    assert made.read(12.0) is None
    assert made.read(13.0) == Rates(0.0, 0.0)
